// One job on one screen: its sentence, where it is, its attempts, its workers; and why it is in its phase.

import { causeText, costText, startText } from '../../app/phrases.ts';
import type {
  AllocationView,
  AttemptView,
  JobView,
  SavedView,
  Why,
  WorkdirView,
  WorkerView,
} from '../../app/client.ts';
import {
  ageText,
  clockText,
  countText,
  dateText,
  dollarsText,
  lengthText,
  reasonWords,
  inertWord,
} from '../../app/figures.ts';
import { aligned, labelled } from './aligned.ts';
import { filled, wrap } from './cell.ts';
import { glyph, type Ink, inPhaseStyle } from '../screen.ts';
import type { ResumeFrom } from '../../core/spec.ts';
import type { Duration, Instant } from '../../core/time.ts';

interface ShowLayout {
  /** Columns of the terminal; null where there is none: then nothing is cut or wrapped. */
  readonly columns: number | null;
  readonly ink: Ink;
  readonly unicode: boolean;
  readonly now: Instant;
}

/** Workers and attempts beyond this many are counted, not listed; `--json` has all. */
const mostRows = 20;

export function showLines(view: JobView, layout: ShowLayout): readonly string[] {
  return [
    ...heading(view, layout),
    ...facts(view, layout),
    ...attempts(view, layout),
    ...workers(view, layout),
    ...commands(view, layout.columns),
  ];
}

function heading(view: JobView, layout: ShowLayout): readonly string[] {
  const status = `${glyph(layout, view.phase)} ${inertWord(view.status)} for ${lengthText(layout.now - view.since)}`;
  const attempt = view.attempt === 0 ? '' : `attempt ${view.attempt}, stage ${view.stage}`;
  const name = `${view.id} ${inertWord(view.name)} (${inertWord(view.user)})`;
  const parts = [layout.ink('bold', name), inPhaseStyle(layout.ink, view.phase, status), attempt].filter(Boolean);
  return filled(parts, '  ', layout.columns);
}

function facts(view: JobView, layout: ShowLayout): readonly string[] {
  const rows: (readonly [string, string])[] = [['why', view.why.sentence]];
  rows.push(...whyRows(view.why, layout.now), ['where', where(view, layout)]);
  if (view.progress !== null) rows.push(['progress', view.progress]);
  if (view.saved !== null) rows.push(['saved', savedText(view.saved, layout.now)]);
  if (view.ifTaken !== null) rows.push(['if taken', view.ifTaken]);
  const cost = costLine(view);
  if (cost !== null) rows.push(['cost', cost]);
  const { overrides } = view.spec;
  if (overrides !== undefined) rows.push(['set', overrides.map(({ key, value }) => `${key}=${value}`).join(', ')]);
  const { resumeFrom } = view.spec.command;
  if (resumeFrom?.kind === 'folder' || resumeFrom?.kind === 'entry')
    rows.push(['begins at', beginningText(resumeFrom)]);
  if (view.checkpointDir !== null) rows.push(['saves to', checkpointsText(view)]);
  const workdir = view.workdirs.at(-1);
  if (workdir !== undefined) rows.push(['workdir', workdirText(workdir, view)]);
  const owner = ownerText(view);
  if (owner !== null) rows.push(['owner', owner]);
  if (view.tags.length > 0) rows.push(['tags', view.tags.join(', ')]);
  rows.push(['files', view.hasFiles ? view.folder : 'none; they were cleaned']);
  return labelled(rows, layout.columns);
}

/** Whom the machines are told that they belong to: in a shared project that may be somebody else than who runs jobman. */
function ownerText({ spec: { capacity } }: JobView): string | null {
  const owner = capacity.kind === 'tpu' ? capacity.metadata['owner'] : undefined;
  return owner === undefined ? null : `${inertWord(owner)}, by tpu.metadata`;
}

function savedText({ name, folder, at }: SavedView, now: Instant): string {
  return `${name}, ${ageText(now - at)} ago, in ${folder}`;
}

function checkpointsText({ checkpointDir, spec }: JobView): string {
  return `${checkpointDir}${spec.command.checkpoints === 'shared' ? ', shared with every job that uses this folder' : ''}`;
}

function beginningText(from: Exclude<ResumeFrom, { readonly kind: 'job' }>): string {
  const job = from.kind === 'folder' && from.job !== undefined ? ` of job ${from.job}` : '';
  return from.kind === 'entry' ? from.path : `the newest checkpoint${job} in ${from.path}`;
}

/** `/home/ada/vit at 3f2a9c1 (main) with changes, 120 files, copied 2h ago; attempt 1 ran copy 1`. */
function workdirText(workdir: WorkdirView, { attempts: all }: JobView): string {
  const { git } = workdir;
  const commit =
    git === null ? '' : git.commit === null ? ', before its first commit' : ` at ${git.commit.slice(0, 10)}`;
  const branch = git?.branch === null || git === null ? '' : ` (${git.branch})`;
  const changes = git?.isChanged === true ? ` with changes (${workdir.folder}/changes.diff)` : '';
  const last = all.at(-1)?.workdir ?? null;
  const next = last === null || last === workdir.snapshot ? '' : `; attempt ${all.length} ran copy ${last}`;
  const copy = workdir.snapshot === 1 ? '' : `, copy ${workdir.snapshot}`;
  return `${inertWord(workdir.from)}${commit}${branch}${changes}, ${countText(workdir.files, 'file')}${copy}${next}`;
}

function costLine(view: JobView): string | null {
  const now = view.pricePerHour === null ? [] : [`${costText(view, view.pricePerHour)}, for what it holds now`];
  const free = view.pretended && view.pricePerHour === null ? ' at Google and nothing here' : '';
  const all = view.spent === null ? [] : [`${dollarsText(view.spent)}${free} so far, estimated`];
  const parts = [...now, ...all];
  return parts.length === 0 ? null : parts.join('; ');
}

function where(view: JobView, layout: ShowLayout): string {
  const { capacity, workdir } = view.spec;
  if (view.backend === 'local' && capacity.kind === 'local') {
    return `${view.accelerator}, in ${startText(workdir, capacity)}`;
  }
  const allocation = view.allocations.at(-1);
  const place = [view.accelerator, view.pricing].filter((part) => part !== null).join(' ');
  const parts = [place, view.zone, allocation === undefined ? null : allocationPhrase(allocation, layout)];
  return parts.filter((part) => part !== null && part !== '').join(', ');
}

function allocationPhrase(allocation: AllocationView, layout: ShowLayout): string | null {
  if (allocation.ownership === 'standing' && allocation.ready === null) return null;
  const since = (at: Instant) => lengthText(layout.now - at);
  const name = `allocation ${allocation.allocation} (${allocation.name})`;
  // The TPU was never requested, for example in an imported job, so its name was never used.
  if (allocation.requested === null) return null;
  if (allocation.gone !== null) return `${name} gone for ${since(allocation.gone)}`;
  if (allocation.released !== null) return `${name} released ${since(allocation.released)} ago, not yet seen gone`;
  if (allocation.ready !== null) return `${name} ready for ${since(allocation.ready)}`;
  if (allocation.requested !== null) return `${name} asked for ${since(allocation.requested)} ago: ${allocation.state}`;
  return null;
}

function attempts(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.attempts.length === 0) return [];
  const shown = view.attempts.slice(-mostRows);
  const isNarrow = layout.columns !== null && layout.columns < tableTerminal;
  const columns = isNarrow ? attemptColumns.filter(({ isDropped }) => !isDropped) : attemptColumns;
  const rows = shown.map((attempt) => {
    const ready = view.allocations.find(({ allocation }) => allocation === attempt.allocation)?.ready ?? null;
    const all = spans(attempt, ready, layout.now);
    return [...columns.map(({ text }) => text(attempt, all)), ended(view, attempt, layout.now)];
  });
  const lines = aligned(
    [[...columns.map(({ title }) => title), 'ENDED (UTC)'], ...rows],
    [...columns.map(() => 'right' as const), 'left'],
    layout.columns,
    'wrap',
  );
  const earlier = view.attempts.length - shown.length;
  return earlier === 0
    ? lines
    : [...lines, `${countText(earlier, 'earlier attempt')}: jobman history ${Number(view.id)}`];
}

/** Below this width the table says how each attempt went, and no more. */
const tableTerminal = 80;

const attemptColumns: readonly {
  readonly title: string;
  readonly isDropped?: true;
  readonly text: (attempt: AttemptView, all: Spans) => string;
}[] = [
  { title: 'ATTEMPT', text: ({ attempt }) => String(attempt) },
  { title: 'STAGE', isDropped: true, text: ({ stage }) => String(stage) },
  { title: 'ALLOCATION', isDropped: true, text: ({ allocation }) => String(allocation) },
  { title: 'WAITED', isDropped: true, text: (_, { waited }) => spanText(waited) },
  { title: 'SETUP', isDropped: true, text: (_, { setup }) => spanText(setup) },
  { title: 'RAN', text: (_, { ran }) => spanText(ran) },
];

interface Spans {
  readonly waited: Duration | null;
  readonly setup: Duration | null;
  readonly ran: Duration | null;
}

function spanText(span: Duration | null): string {
  return span === null ? '-' : lengthText(span);
}

/**
 * How long an attempt waited for its capacity or out a pause, was set up, and ran; null for what has not begun. Of a pause
 * nothing is set up, whatever the attempt has from the one before.
 */
function spans(attempt: AttemptView, ready: Instant | null, now: Instant): Spans {
  const end = attempt.ended ?? now;
  const usable = ready === null ? null : Math.max(ready, attempt.created, attempt.notBefore);
  const begun = usable === null || usable > (attempt.started ?? end) ? null : usable;
  return {
    waited: (begun ?? attempt.started ?? end) - attempt.created,
    setup: begun === null ? null : (attempt.started ?? end) - begun,
    ran: attempt.started === null ? null : (attempt.ending ?? end) - attempt.started,
  };
}

function ended({ spec }: JobView, attempt: AttemptView, now: Instant): string {
  if (attempt.reason === null) return '-';
  const at = attempt.ended;
  const day = at === null || dateText(at, now) === dateText(now, now) ? '' : `${dateText(at, now)} `;
  const when = at === null ? 'ending' : `${day}${clockText(at)}`;
  const cause = attempt.evidence === null ? '' : causeText(spec, attempt.reason, attempt.evidence);
  return inertWord(`${when} ${reasonWords[attempt.reason]}${cause === '' ? '' : `: ${cause}`}`.replaceAll('\n', ' '));
}

function workers(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.workers.length === 0) return [];
  const shown = view.workers.length <= mostRows ? view.workers : mostUnlike(view.workers);
  const isNarrow = layout.columns !== null && layout.columns < tableTerminal;
  const columns = isNarrow ? workerColumns.filter(({ isDropped }) => !isDropped) : workerColumns;
  const rows = shown.map((worker) => columns.map(({ text }) => text(worker)));
  const lines = aligned(
    [columns.map(({ title }) => title), ...rows],
    columns.map(({ side }) => side),
    layout.columns,
  );
  const more = view.workers.length - shown.length;
  return more === 0
    ? lines
    : [...lines, `${countText(more, 'more worker')}, like the others: jobman show ${Number(view.id)} --json`];
}

/** On a narrow terminal what a worker prints is worth more than its address, which `ssh` knows. */
const workerColumns: readonly {
  readonly title: string;
  readonly side: 'left' | 'right';
  readonly isDropped?: true;
  readonly text: (worker: WorkerView) => string;
}[] = [
  { title: 'WORKER', side: 'right', text: ({ worker }) => String(worker) },
  { title: 'HOST', side: 'left', isDropped: true, text: ({ host }) => inertWord(host ?? '-') },
  { title: 'STATE', side: 'left', text: ({ state }) => inertWord(state) },
  { title: 'LOG AGE', side: 'right', text: ({ logAgeMs }) => (logAgeMs === null ? '-' : ageText(logAgeMs)) },
  { title: 'LAST LINE', side: 'left', text: lastLine },
];

/** Of many workers those to look at, in their order: whose state is rare, then whose log has been silent longest. */
function mostUnlike(all: readonly WorkerView[]): readonly WorkerView[] {
  const counts = new Map<string, number>();
  for (const { state } of all) counts.set(state, (counts.get(state) ?? 0) + 1);
  const rarity = ({ state }: WorkerView) => counts.get(state) ?? 0;
  const age = ({ logAgeMs }: WorkerView) => logAgeMs ?? 0;
  const chosen = new Set(
    all.toSorted((one, other) => rarity(one) - rarity(other) || age(other) - age(one)).slice(0, mostRows),
  );
  return all.filter((worker) => chosen.has(worker));
}

function lastLine(worker: WorkerView): string {
  // A progress bar writes over itself: what counts is what stands there now.
  return inertWord((worker.lastLine ?? '').trimEnd().split('\r').at(-1) ?? '');
}

function commands(view: JobView, columns: number | null): readonly string[] {
  const id = Number(view.id);
  return filled(
    ['logs', 'history', 'why'].map((verb) => `jobman ${verb} ${id}`),
    ' | ',
    columns,
  );
}

export function whyLines(why: Why, columns: number | null, now: Instant, isExplained = false): readonly string[] {
  const sentence = inertWord(why.sentence);
  const head = columns === null ? [sentence] : wrap(sentence, columns);
  return [...head, ...labelled([...whyRows(why, now), ...(isExplained ? [situationRow(why)] : [])], columns)];
}

function situationRow({ situation }: Why): readonly [string, string] {
  if (situation === null) return ['situation', 'none is recorded yet'];
  const { name, means } = situation;
  return ['situation', means === null ? name : `${name}: ${means}`];
}

function whyRows(why: Why, now: Instant): readonly (readonly [string, string])[] {
  const rows: (readonly [string, string])[] = [];
  if (why.because !== null) rows.push(['because', why.because]);
  for (const [index, line] of why.log.entries()) rows.push([index === 0 ? 'log' : '', line]);
  if (why.rule !== null) rows.push(['rule', why.rule]);
  if (why.usually !== null) rows.push(['usually', why.usually]);
  return [...rows, ['next', nextText(why, now)]];
}

function nextText({ next, nextAt, lookAt }: Why, now: Instant): string {
  const [first = '', ...others] = next.split('; ');
  const when = nextAt !== null && nextAt > now ? ` (in ${lengthText(nextAt - now)})` : '';
  const look = lookAt !== null && lookAt > now ? [`looked at again in ${lengthText(lookAt - now)}`] : [];
  return [`${first}${when}`, ...others, ...look].join('; ');
}
