import { html, useState, useAction, useShared, post, loadSession, Field, Problem } from "/assets/kit.js";

export function Login() {
  const { session } = useShared();
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const { act, busy, error } = useAction(async () => {
    await post("login", { user, password });
    setPassword("");
    await loadSession();
  });
  if (session.entry === "closed") {
    return html`<main id="main" class="alone" tabindex="-1"><div class="card"><h1><span class="seal" aria-hidden="true"></span>Barnabas</h1>
      <p>${session.advice}</p></div></main>`;
  }
  const send = (event) => { event.preventDefault(); act(); };
  return html`<main id="main" class="alone" tabindex="-1"><form class="card" onSubmit=${send}>
    <h1><span class="seal" aria-hidden="true"></span>Barnabas</h1><p class="lead">${session.advice}</p>
    ${session.entry === "user" && html`<${Field} label="User"><input autocomplete="username" required value=${user} onInput=${(event) => setUser(event.target.value)} /><//>`}
    <${Field} label="Password"><input type="password" autocomplete="current-password" required value=${password} onInput=${(event) => setPassword(event.target.value)} /><//>
    <${Problem} error=${error} /><button class="main" disabled=${busy}>${busy ? "Checking …" : "Log in"}</button></form></main>`;
}
