import { html, useState, useEffect, useLoad, useAction, useChecked, post, mayWrite, say, count, short, bytes, retention, to, Page, Table, Empty, Problem, Loading, Pager, Field, Dialog } from "/assets/kit.js";
import { Messages } from "/assets/messages.js";
import { Produce } from "/assets/produce.js";
import { ConfigTable } from "/assets/configs.js";

const LIMIT = 50;

export function Topics({ parts }) {
  return parts.length ? html`<${Topic} name=${parts[0]} tab=${parts[1] || "messages"} key=${parts[0]} />` : html`<${List} />`;
}

function List() {
  const [filter, setFilter] = useState("");
  const [internal, setInternal] = useState(false);
  const [sort, setSort] = useState("name");
  const [offset, setOffset] = useState(0);
  const [creating, setCreating] = useState(false);
  const { data, error, load } = useLoad("topics", { filter, internal, sort, offset, limit: LIMIT }, 3);
  useEffect(() => setOffset(0), [filter, internal, sort]);
  const actions = mayWrite() && html`<button class="main" onClick=${() => setCreating(true)}>Create a topic</button>`;
  return html`<${Page} title="Topics" lead=${data && `${count(data.total)} topics${data.hidden ? `, ${data.hidden} internal hidden` : ""}`} actions=${actions}>
    <div class="filters">
      <${Field} label="Name contains" kind="grow"><input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /><//>
      <${Field} label="Sort by"><select value=${sort} onChange=${(event) => setSort(event.target.value)}>
        ${[["name", "Name"], ["bytes", "Size"], ["records", "Records"], ["rate", "Records a second"], ["partitions", "Partitions"]].map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select><//>
      <${Field} label="Internal topics" kind="check"><input type="checkbox" checked=${internal} onChange=${(event) => setInternal(event.target.checked)} /><//>
    </div>
    <${Problem} error=${error} load=${load} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} caption="Topics" columns=${[["Topic"], ["Partitions", "number wide"], ["Records", "number"], ["Records/s", "number wide"], ["Size", "number"], ["Kept", "wide"]]}
      rows=${data.topics.map((one) => [html`<a href=${to("topics", one.name)}>${one.name}</a>${one.offline > 0 && html` <span class="tag error">${one.offline} offline</span>`}`,
        count(one.partitions), count(one.records), short(one.rate), bytes(one.bytes),
        one.cleanup === "compact" ? "newest of each key" : `${retention(one.retention_ms)}${one.cleanup.includes("compact") ? ", compacted" : ""}`])}
      empty=${filter ? html`<${Empty} title="No topic has this in its name">Shorten what you look for, or show internal topics.<//>`
        : html`<${Empty} title="No topics yet">A producer creates one with its first record${mayWrite() ? ", or create one here" : ""}.<//>`} />
      <${Pager} total=${data.total} offset=${offset} limit=${LIMIT} move=${setOffset} />`}
    ${creating && html`<${Create} close=${() => setCreating(false)} />`}<//>`;
}

function Create({ close }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [configs, setConfigs] = useState("");
  const { checked, changed, begin } = useChecked();
  const { act, busy, error } = useAction(async (dryRun) => {
    const tell = begin();
    const lines = configs.split("\n").map((line) => line.trim()).filter(Boolean);
    const values = Object.fromEntries(lines.map((line) => { const at = line.indexOf("="); return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()]; }));
    const found = await post("topics/create", { name, partitions: partitions === "" ? -1 : Number(partitions), configs: values, dry_run: dryRun });
    if (dryRun) { tell(found); return; }
    say(`Created ${name}`);
    close();
    location.hash = to("topics", name);
  });
  const change = (set) => (event) => { changed(); set(event.target.value); };
  return html`<${Dialog} title="Create a topic" close=${close}><form onSubmit=${(event) => { event.preventDefault(); act(false); }}>
    <${Field} label="Name" hint="Letters, digits, dots, underscores and hyphens"><input autofocus required maxlength="249" value=${name} onInput=${change(setName)} /><//>
    <${Field} label="Partitions" hint="Empty: num.partitions of the broker"><input type="number" min="1" inputmode="numeric" value=${partitions} onInput=${change(setPartitions)} /><//>
    <${Field} label="Configs" hint="One a line, such as retention.ms=86400000"><textarea class="mono" rows="3" value=${configs} onInput=${change(setConfigs)}></textarea><//>
    <${Problem} error=${error} />
    ${checked && html`<p class="fine" role="status">This would create ${checked.name} with ${checked.partitions} ${checked.partitions === 1 ? "partition" : "partitions"}.</p>`}
    <div class="buttons"><button class="main" disabled=${busy}>Create</button>
      <button type="button" disabled=${busy || !name} onClick=${() => act(true)}>Check only</button>
      <button type="button" class="quiet" onClick=${close}>Cancel</button></div></form><//>`;
}

const TABS = [["messages", "Messages"], ["partitions", "Partitions"], ["produce", "Produce"], ["configs", "Configuration"]];

function Topic({ name, tab }) {
  const [offset, setOffset] = useState(0);
  const [deleting, setDeleting] = useState(false);
  const { data, error, load } = useLoad("topic", { topic: name, offset, limit: 100 }, 3);
  const actions = mayWrite() && data && html`<button class="quiet" onClick=${() => setDeleting(true)}>Delete …</button>`;
  const lead = data && html`${count(data.partitions)} ${data.partitions === 1 ? "partition" : "partitions"} · ${count(data.records)} records · ${bytes(data.bytes)} · kept ${retention(data.retention_ms)}`;
  return html`<${Page} title=${name} lead=${lead} actions=${actions} back=${{ href: "#/topics", text: "← Topics" }}>
    <${Problem} error=${error} load=${load} />
    <nav class="tabs" aria-label=${`Views of ${name}`}>${TABS.filter(([value]) => value !== "produce" || mayWrite()).map(([value, title]) => html`<a href=${to("topics", name, value)} aria-current=${tab === value ? "page" : null}>${title}</a>`)}</nav>
    ${data && tab === "messages" && html`<${Messages} topic=${name} partitions=${data.partitions} />`}
    ${data && tab === "produce" && html`<${Produce} topic=${name} partitions=${data.partitions} />`}
    ${data && tab === "configs" && html`<${ConfigTable} type="topic" name=${name} />`}
    ${data && tab === "partitions" && html`<${Table} caption="Partitions" columns=${[["Partition"], ["Start", "number wide"], ["End", "number"], ["Records", "number wide"], ["Size", "number"], ["Segments", "number wide"], ["State"]]}
      rows=${data.list.map((one) => one.is_offline ? [one.partition, "–", "–", "–", "–", "–", html`<span class="tag error">offline</span>`]
        : [one.partition, count(one.start_offset), count(one.high_watermark), count(one.high_watermark - one.start_offset), bytes(one.bytes), count(one.segments),
          one.has_failed ? html`<span class="tag error">failed</span>` : one.last_stable_offset < one.high_watermark ? html`<span class="tag">open transaction</span>` : "sound"])} />
      <${Pager} total=${data.partitions} offset=${offset} limit=${100} move=${setOffset} />`}
    ${deleting && html`<${Delete} name=${name} close=${() => setDeleting(false)} />`}<//>`;
}

function Delete({ name, close }) {
  const [confirm, setConfirm] = useState("");
  const { act, busy, error } = useAction(async () => {
    await post("topics/delete", { name, confirm });
    say(`Deleted ${name}`);
    close();
    location.hash = "#/topics";
  });
  return html`<${Dialog} title="Delete this topic?" close=${close}><form onSubmit=${(event) => { event.preventDefault(); act(); }}>
    <p>Its records are gone for good, and no consumer is told.</p>
    <${Field} label=${`Type ${name} to confirm`}><input autofocus autocomplete="off" value=${confirm} onInput=${(event) => setConfirm(event.target.value)} /><//>
    <${Problem} error=${error} /><div class="buttons"><button class="danger" disabled=${busy || confirm !== name}>Delete</button><button type="button" class="quiet" onClick=${close}>Cancel</button></div></form><//>`;
}
