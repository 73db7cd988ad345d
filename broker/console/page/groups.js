import { html, useState, useEffect, useLoad, useAction, useChecked, post, mayWrite, say, count, span, to, Page, Table, Empty, Problem, Loading, Pager, Field, Dialog } from "/assets/kit.js";

const LIMIT = 50;

export function Groups({ parts }) {
  return parts.length ? html`<${Group} id=${parts[0]} key=${parts[0]} />` : html`<${List} />`;
}

function List() {
  const [filter, setFilter] = useState("");
  const [offset, setOffset] = useState(0);
  const { data, error, load } = useLoad("groups", { filter, offset, limit: LIMIT }, 3);
  useEffect(() => setOffset(0), [filter]);
  return html`<${Page} title="Groups" lead=${data && `${count(data.total)} groups, the largest lag first`}>
    <div class="filters"><${Field} label="Name contains" kind="grow"><input type="search" value=${filter} onInput=${(event) => setFilter(event.target.value)} /><//></div>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} caption="Groups" columns=${[["Group"], ["State"], ["Kind", "wide"], ["Members", "number wide"], ["Lag", "number"]]}
      rows=${data.groups.map((one) => [html`<a href=${to("groups", one.group_id)}>${one.group_id}</a>`, html`<span class=${`tag ${one.state === "Stable" ? "good" : ""}`}>${one.state}</span>`, one.kind, count(one.members), count(one.lag)])}
      empty=${filter ? html`<${Empty} title="No group has this in its name">Shorten what you look for.<//>` : html`<${Empty} title="No groups yet">A consumer with a group.id shows up here, and stays as long as its offsets are kept.<//>`} />
      <${Pager} total=${data.total} offset=${offset} limit=${LIMIT} move=${setOffset} />`}<//>`;
}

function Group({ id }) {
  const [offset, setOffset] = useState(0);
  const { data, error, load } = useLoad("group", { id, offset, limit: 200 }, 3);
  const [dialog, setDialog] = useState("");
  const topics = data ? data.topics : [];
  const assigned = (assignment) => assignment === null ? "not a consumer's" : Object.entries(assignment).map(([topic, list]) => `${topic}: ${list.join(", ")}`).join("; ") || "nothing";
  const actions = mayWrite() && data && html`<button onClick=${() => setDialog("reset")} disabled=${!topics.length}>Reset offsets …</button><button class="quiet" onClick=${() => setDialog("delete")}>Delete …</button>`;
  return html`<${Page} title=${id} back=${{ href: "#/groups", text: "← Groups" }} actions=${actions}
    lead=${data && html`<span class=${`tag ${data.state === "Stable" ? "good" : ""}`}>${data.state}</span> ${data.kind} group · ${data.members.length} ${data.members.length === 1 ? "member" : "members"} · lag ${count(data.lag)}`}>
    <${Problem} error=${error} load=${load} />${!data && !error && html`<${Loading} />`}
    ${data && html`${data.lag_history.lags.length > 1 && html`<${Spark} history=${data.lag_history} />`}
      <h2>Offsets</h2><${Table} caption="Offsets" columns=${[["Topic"], ["Partition", "number"], ["Committed", "number"], ["End", "number wide"], ["Lag", "number"], ["Behind", "number wide"]]}
        rows=${data.offsets.map((one) => [html`<a href=${to("topics", one.topic)}>${one.topic}</a>`, one.partition, count(one.offset), count(one.end), count(one.lag), one.lag_seconds === null ? "–" : one.lag ? span(one.lag_seconds) : "0 s"])}
        empty=${html`<${Empty} title="No committed offsets">The group has not committed anything yet.<//>`} />
      <${Pager} total=${data.offset_count} offset=${offset} limit=${200} move=${setOffset} />
      <h2>Members</h2><${Table} caption="Members" columns=${[["Client"], ["Host", "wide"], ["Partitions"], ["Member id", "wide mono"]]}
        rows=${data.members.map((one) => [one.client_id || "–", one.host, assigned(one.assignment), one.member_id])}
        empty=${html`<${Empty} title="No members">No consumer is connected. Offsets can be reset now.<//>`} />`}
    ${dialog === "reset" && html`<${Reset} id=${id} topics=${topics} close=${() => { setDialog(""); load(); }} />`}
    ${dialog === "delete" && html`<${Delete} id=${id} close=${() => setDialog("")} />`}<//>`;
}

function Spark({ history }) {
  const values = history.lags;
  const most = Math.max(1, ...values), step = 300 / (values.length - 1);
  const line = values.map((one, at) => `${(at * step).toFixed(1)},${(38 - 36 * one / most).toFixed(1)}`).join(" ");
  return html`<figure class="spark"><figcaption>Lag in the last ${span(history.step_s * (values.length - 1))}: now ${count(values[values.length - 1])}, at most ${count(Math.max(...values))}</figcaption>
    <svg viewBox="0 0 300 40" preserveAspectRatio="none" aria-hidden="true"><polyline points=${line} fill="none" stroke="currentColor" stroke-width="1.5" vector-effect="non-scaling-stroke" /></svg></figure>`;
}

const TARGETS = [["earliest", "The beginning"], ["latest", "The end"], ["timestamp", "A time"], ["offset", "An offset"], ["shift", "So many records on or back"]];

function Reset({ id, topics, close }) {
  const [topic, setTopic] = useState(topics[0]);
  const [target, setTarget] = useState("earliest");
  const [value, setValue] = useState("");
  const { checked: plan, changed, begin } = useChecked();
  const { act, busy, error } = useAction(async (dryRun) => {
    const tell = begin();
    const number = target === "timestamp" ? new Date(value).getTime() : Number(value || 0);
    const found = await post("groups/reset", { group: id, topic, to: target, value: number, dry_run: dryRun });
    if (dryRun) { tell(found.changes); return; }
    say(`Offsets of ${topic} are reset`);
    close();
  });
  const change = (set) => (event) => { changed(); set(event.target.value); };
  return html`<${Dialog} title="Reset offsets" close=${close}><form onSubmit=${(event) => { event.preventDefault(); act(plan === null); }}>
    <${Field} label="Topic"><select value=${topic} onChange=${change(setTopic)}>${topics.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
    <${Field} label="To"><select value=${target} onChange=${change(setTarget)}>${TARGETS.map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select><//>
    ${target === "timestamp" && html`<${Field} label="Time"><input type="datetime-local" step="1" required value=${value} onInput=${change(setValue)} /><//>`}
    ${(target === "offset" || target === "shift") && html`<${Field} label=${target === "offset" ? "Offset" : "Records"} hint=${target === "shift" ? "Negative: back" : ""}><input type="number" required value=${value} onInput=${change(setValue)} /><//>`}
    <${Problem} error=${error} />
    ${plan && html`<${Table} caption="What would change" columns=${[["Partition"], ["Now", "number"], ["Then", "number"]]} rows=${plan.map((one) => [one.partition, count(one.before), count(one.after)])} />`}
    <div class="buttons">${plan === null ? html`<button class="main" disabled=${busy}>Show what would change</button>` : html`<button class="danger" disabled=${busy}>Reset ${plan.length} ${plan.length === 1 ? "partition" : "partitions"}</button>`}
      <button type="button" class="quiet" onClick=${close}>Cancel</button></div></form><//>`;
}

function Delete({ id, close }) {
  const [confirm, setConfirm] = useState("");
  const { act, busy, error } = useAction(async () => {
    await post("groups/delete", { group: id, confirm });
    say(`Deleted ${id}`);
    close();
    location.hash = "#/groups";
  });
  return html`<${Dialog} title="Delete this group?" close=${close}><form onSubmit=${(event) => { event.preventDefault(); act(); }}>
    <p>Its committed offsets are forgotten. Consumers that come back begin where auto.offset.reset says.</p>
    <${Field} label=${`Type ${id} to confirm`}><input autofocus autocomplete="off" value=${confirm} onInput=${(event) => setConfirm(event.target.value)} /><//>
    <${Problem} error=${error} /><div class="buttons"><button class="danger" disabled=${busy || confirm !== id}>Delete</button><button type="button" class="quiet" onClick=${close}>Cancel</button></div></form><//>`;
}
