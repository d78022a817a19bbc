// An OpenID Connect provider (the package oidc-provider) on loopback: node oidc_provider.js CERTIFICATE KEY
//
// Prints its URL. Whoever logs in as NAME is NAME@example.com, a member of dev and qa. The token that comes with jane's login is good for a second, all others for an hour.

import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { Provider } from "oidc-provider";

const [certificate, key] = process.argv.slice(2);
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) });
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const issuer = `https://127.0.0.1:${server.address().port}`;

const clients = ["kubernetes", "other"].map((name) => ({
  client_id: name,
  client_secret: `${name}-secret`,
  grant_types: ["authorization_code", "refresh_token"],
  redirect_uris: ["http://localhost:8000"],
}));

const provider = new Provider(issuer, {
  clients,
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups", "tenant"] },
  conformIdTokenClaims: false, // claims of the scopes stand in the token, where an API server looks for them
  pkce: { required: () => false },
  features: { devInteractions: { enabled: true } },
  ttl: { IdToken: ({ oidc }) => (oidc.params.grant_type !== "refresh_token" && oidc.account?.accountId === "jane" ? 1 : 3600) },
  findAccount: (context, name) => ({
    accountId: name,
    claims: () => ({ sub: name, email: `${name}@example.com`, email_verified: name !== "eve", groups: ["dev", "qa"], tenant: "blue" }),
  }),
});
server.on("request", provider.callback());
console.log(issuer);
