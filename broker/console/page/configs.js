import { html, useState, useLoad, useAction, useChecked, post, mayWrite, say, count, Page, Empty, Problem, Loading, Field, Dialog } from "/assets/kit.js";

export function Configs() {
  return html`<${Page} title="Configuration" lead="What this broker runs with, and where each value comes from"><${ConfigTable} type="broker" name="" /><//>`;
}

export function ConfigTable({ type, name }) {
  const [filter, setFilter] = useState("");
  const [differs, setDiffers] = useState(type === "broker");
  const [editing, setEditing] = useState(null);
  const { data, error, load } = useLoad("configs", { type, name });
  const wanted = filter.toLowerCase();
  const rows = data ? data.configs.filter((one) => (!differs || one.differs) && (one.name.includes(wanted) || one.documentation.toLowerCase().includes(wanted))) : [];
  return html`<section aria-label="Configs"><div class="filters">
      <${Field} label="Name or text contains" kind="grow"><input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /><//>
      <${Field} label="Only what differs from the default" kind="check"><input type="checkbox" checked=${differs} onChange=${(event) => setDiffers(event.target.checked)} /><//></div>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && !rows.length && html`<${Empty} title=${differs && !wanted ? "Everything is at its default" : "No key matches"}>${differs ? "Show all keys to see and change them." : "Shorten what you look for."}<//>`}
    ${data && rows.length > 0 && html`<p class="hint">${count(rows.length)} of ${count(data.configs.length)} keys</p><dl class="configs">${rows.map((one) => html`<div class=${one.differs ? "differs" : ""}>
      <dt class="mono">${one.name}</dt><dd class="mono value">${one.is_sensitive ? html`<span class="null">hidden</span>` : one.value === null || one.value === "" ? html`<span class="null">empty</span>` : one.value}</dd>
      <dd class="source">${one.source}${mayWrite() && (!one.read_only || one.source.includes("dynamic")) && html` <button class="quiet small" aria-label=${`Edit ${one.name}`} onClick=${() => setEditing(one)}>Edit</button>`}</dd>
      ${one.documentation && html`<dd class="doc">${one.documentation}</dd>`}</div>`)}</dl>`}
    ${editing && html`<${Edit} type=${type} name=${data.name} one=${editing} close=${() => { setEditing(null); load(); }} />`}</section>`;
}

function Edit({ type, name, one, close }) {
  const [value, setValue] = useState(one.value || "");
  const { checked, changed, begin } = useChecked();
  const { act, busy, error } = useAction(async (body, dryRun) => {
    const tell = begin();
    await post("configs/alter", { type, name, ...body, dry_run: dryRun });
    if (dryRun) { tell(true); return; }
    say(`${one.name} is changed`);
    close();
  });
  const set = { set: { [one.name]: value } };
  return html`<${Dialog} title=${one.name} close=${close}><form onSubmit=${(event) => { event.preventDefault(); act(set, false); }}>
    <p>${one.documentation}</p>
    <${Field} label="Value" hint=${one.default === null ? one.kind : `${one.kind}, by default ${one.default || "empty"}`}><input class="mono" autofocus value=${value} onInput=${(event) => { changed(); setValue(event.target.value); }} /><//>
    <${Problem} error=${error} />${checked && html`<p class="fine" role="status">The broker would take this value.</p>`}
    <div class="buttons"><button class="main" disabled=${busy}>Change</button><button type="button" disabled=${busy} onClick=${() => act(set, true)}>Check only</button>
      ${one.differs && html`<button type="button" disabled=${busy} onClick=${() => act({ delete: [one.name] }, false)}>Back to the default</button>`}
      <button type="button" class="quiet" onClick=${close}>Cancel</button></div></form><//>`;
}
