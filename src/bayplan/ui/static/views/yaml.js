// An object as YAML, coloured by the simplest of rules; everything stays text.
import { asText, html, useAnswer, useMemo, useState } from "../lib.js";

const LINE = /^(\s*(?:- )*)("(?:[^"\\]|\\.)*"|[^\s:#'"][^:]*)(:)(\s.*)?$/;

export function Yaml({ kind, namespace, name, version }) {
  const [managed, setManaged] = useState(false);
  const query = new URLSearchParams({ kind, namespace, name, managedFields: String(managed) });
  const { data, error } = useAnswer(`/api/object?${query}`, [kind, namespace, name, managed, version], asText);
  if (error) return html`<p class="notice">${error}</p>`;
  return html`<label class="quiet"><input type="checkbox" checked=${managed} onChange=${(event) => setManaged(event.currentTarget.checked)} /> managed fields</label>
    <${Coloured} text=${data || ""} />`;
}

function Coloured({ text }) {
  const lines = useMemo(() => text.split("\n").map((line) => {
    const found = LINE.exec(line);
    return found ? html`${found[1]}<span class="k">${found[2]}</span>:<span class="s">${found[4] || ""}</span>\n` : `${line}\n`;
  }), [text]);
  return html`<pre class="yaml" tabindex="0">${lines}</pre>`;
}
