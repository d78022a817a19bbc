// Where in the page we are: the fragment of the URL, such as #/pods?labels=app%3Dweb or #/pod/shop/web-1/why.
import { useEffect, useState } from "./lib.js";

export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const go = (...parts) => { location.hash = to(...parts); };

/** Change the query of the present place without a new entry in the history. */
export function setQuery(values) {
  const { parts, query } = current();
  for (const [name, value] of Object.entries(values)) if (value) query.set(name, value); else query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", to(...parts) + (text ? `?${text}` : ""));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const changed = () => setRoute(current());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** The place of an object of the tables. */
export const place = (kind, namespace, name) =>
  kind === "Pod" ? to("pod", namespace, name) : kind === "Node" ? to("node", name) : to("object", kind, namespace || "-", name);
