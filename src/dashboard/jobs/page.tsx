// The jobs: filters in the address, the number of jobs in each phase, and commands for several jobs at once.

import { signal, useComputed, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import './jobs.css';
import type { JobRow } from '../../app/client.ts';
import { flagsOf, parseTerms, withPhases, type FilterTerms } from '../../app/filter-terms.ts';
import { formatAge, formatList, pluralize } from '../../app/format.ts';
import { phases, type Phase } from '../../core/decide/phase.ts';
import { ownNames } from '../../core/model/user.ts';
import { quote } from '../../catalogue/shell.ts';
import { readChoice, storeChoice } from '../choices.ts';
import { now } from '../clock.ts';
import { serverNow } from '../live.ts';
import { address, changeQuery, goTo } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { Table, type Selection } from '../parts/table.tsx';
import { actorOf, session } from '../session.ts';
import { Bulk } from './bulk.tsx';
import { allColumns, JobLines, ownColumns } from './columns.tsx';
import { clusterRows, followClusterRows } from './cluster-rows.ts';
import { FilterBox } from './filter-box.tsx';
import { jobHref, keyOfJob } from './job-key.ts';
import { followRows, jobRows } from './rows.ts';
import { holdRows, lastVisit, selectRows, type RowChoice, type ShownRows } from './select-rows.ts';

/** When this browser last showed the list before this page was loaded. */
const seenAt = lastVisit(readChoice('jobs-seen'), serverNow());
const selected = signal<ReadonlySet<string>>(new Set());

export function JobsPage() {
  const shown = useRef<readonly JobRow[]>([]);
  useEffect(() => followRows(() => visibleIds(shown.current)), []);
  useEffect(followClusterRows, []);
  useEffect(rememberVisit, []);
  const isHeld = useSignal(false);
  const held = useRef<{ readonly view: string | null; readonly rows: readonly JobRow[] }>({ view: null, rows: [] });

  const view = useComputed(() => readView());
  const state = jobRows.value;
  const clusters = clusterRows.value;
  const { text, terms, choice, command } = view.value;
  if (state === null) return <p class="quiet">Reading the jobs…</p>;
  const all = () => bothOf(state.rows, clusters.rows);
  const count = state.rows.size + clusters.rows.size;
  const rowOf = (key: string): JobRow | undefined => state.rows.get(key) ?? clusters.rows.get(key);
  const found = selectRows(all(), choice, now.peek());
  const isPinned = (isHeld.value || selected.value.size > 0) && state.isComplete && held.current.view === view.value.id;
  const { rows, waiting } = isPinned
    ? holdRows(held.current.rows, rowOf, found.rows, keyOfJob)
    : { rows: found.rows, waiting: 0 };
  if (state.isComplete) held.current = { view: view.value.id, rows };
  shown.current = rows;
  const release = (): void => {
    held.current = { view: null, rows: [] };
    jobRows.value = { ...state };
  };
  return (
    <section class="page page-table jobs">
      <div class="bar">
        <h1>Jobs</h1>
        <Scope choice={choice} />
        <PageCommand text={command} />
      </div>
      <div class="bar">
        <FilterBox text={text} problems={terms.problems} rows={all} onChange={(filter) => changeQuery({ filter })} />
        <Counts found={found} choice={choice} text={text} />
      </div>
      {state.failure !== null && <Failure lines={state.failure} retry={null} />}
      <ClusterNotes />
      <Bulk
        selected={[...selected.value].flatMap((key) => rowOf(key) ?? [])}
        onClear={() => (selected.value = new Set())}
      />
      {waiting > 0 && (
        <button class="primary waiting" onClick={release}>
          {waiting} new
        </button>
      )}
      {rows.length > 0 || (state.failure !== null && count === 0) || !state.isComplete ? (
        <Table
          label="Jobs"
          rows={rows}
          columns={choice.owners === null ? allColumns : ownColumns}
          twoLines={(row) => <JobLines row={row} />}
          keyOf={keyOfJob}
          onOpen={open}
          selection={selectionOf(rows)}
          onHold={(next) => (isHeld.value = next)}
        />
      ) : count === 0 ? (
        <Empty command="jobman create configs/quick-start.yaml">
          No jobs yet. This command runs an example, which takes about a minute.
        </Empty>
      ) : (
        <Nothing found={found} choice={choice} text={text} total={count} />
      )}
      {rows.length > 0 && <Rest found={found} />}
    </section>
  );
}

function open(row: JobRow): void {
  goTo(jobHref(row));
}

function* bothOf(...maps: readonly ReadonlyMap<string, JobRow>[]): Generator<JobRow, void> {
  for (const map of maps) yield* map.values();
}

/** The clusters that do not answer. Their last rows stay in the list. */
function ClusterNotes() {
  const { notes, failure, answeredAt } = clusterRows.value;
  const lines = failure ?? notes;
  // Without an answer of the server, the list says so.
  if (lines.length === 0 || (failure !== null && jobRows.value?.failure !== null)) return null;
  const age =
    answeredAt === null
      ? []
      : [`The jobs of the cluster are shown as they were ${formatAge(now.value - answeredAt)} ago.`];
  return <Failure lines={[...lines, ...age]} retry={null} />;
}

interface View {
  /** Differs for each choice of rows. */
  readonly id: string;
  /** Of the filter box. */
  readonly text: string;
  readonly terms: FilterTerms;
  readonly choice: RowChoice;
  /** The command that shows the same. It cannot search for texts. */
  readonly command: string;
}

/** The choice that the address and the session make. */
function readView(): View {
  const { query } = address.value;
  const actor = actorOf(session.value);
  const text = query.get('filter') ?? '';
  const terms = parseTerms(text, now.peek());
  const isOwn = query.get('of') !== 'everyone' && terms.query.user === undefined && actor !== null;
  const all = query.get('all') === '1';
  const choice = {
    terms,
    owners: isOwn ? [...ownNames(actor), ...clusterRows.value.owners] : null,
    all,
    onlyAttention: query.get('attention') === '1',
    seenAt,
  };
  const flags = [...(isOwn ? [`--user ${quote(actor.user)}`] : []), ...flagsOf(terms), ...(all ? ['--all'] : [])];
  return { id: query.toString(), text, terms, choice, command: ['jobman list', ...flags].join(' ') };
}

/** Failures that the person has seen need no attention at the next visit. */
function rememberVisit(): () => void {
  const remember = (): void => {
    if (document.visibilityState === 'visible') storeChoice('jobs-seen', String(serverNow()));
  };
  const leave = (): void => storeChoice('jobs-seen', String(serverNow()));
  const timer = setInterval(remember, 5000);
  window.addEventListener('pagehide', leave);
  return () => {
    clearInterval(timer);
    window.removeEventListener('pagehide', leave);
  };
}

/** The jobs to read again, because their texts contain ages. */
function visibleIds(rows: readonly JobRow[]): readonly string[] {
  return rows
    .slice(0, 50)
    .filter(({ backend }) => backend !== 'kubernetes')
    .map(({ id }) => id);
}

function Scope({ choice: { owners, all, terms } }: { readonly choice: RowChoice }) {
  const toggle = (name: string, value: string | null, label: string, isOn: boolean) => (
    <button aria-pressed={isOn} onClick={() => changeQuery({ [name]: value })}>
      {label}
    </button>
  );
  return (
    <>
      {terms.query.user === undefined && (
        <div class="toggles joined" role="group" aria-label="Owners">
          {toggle('of', null, 'Mine', owners !== null)}
          {toggle('of', 'everyone', 'Everyone', owners === null)}
        </div>
      )}
      <div class="toggles joined" role="group" aria-label="Finished jobs">
        {toggle('all', null, 'Last day', !all)}
        {toggle('all', '1', 'All', all)}
      </div>
    </>
  );
}

interface FoundProps {
  readonly found: ShownRows;
  readonly choice: RowChoice;
  readonly text: string;
}

function Counts({ found: { counts, attention }, choice: { onlyAttention, terms }, text }: FoundProps) {
  const wanted = terms.query.phases ?? [];
  const toggle = (phase: Phase): void =>
    changeQuery({
      filter: withPhases(text, wanted.includes(phase) ? wanted.filter((one) => one !== phase) : [...wanted, phase]),
    });
  return (
    <div class="toggles" role="group" aria-label="Phases">
      <button
        class={attention > 0 ? 'attention' : ''}
        aria-pressed={onlyAttention}
        title="Jobs that failed since your last visit, or with a silent worker, no answer from the cloud, a nearly used budget or a long wait"
        onClick={() => changeQuery({ attention: onlyAttention ? null : '1' })}
      >
        needs attention {attention}
      </button>
      {phases.flatMap((phase) => {
        const count = counts.get(phase) ?? 0;
        if (count === 0 && !wanted.includes(phase)) return [];
        return [
          <button key={phase} aria-pressed={wanted.includes(phase)} onClick={() => toggle(phase)}>
            {phase} {count}
          </button>,
        ];
      })}
    </div>
  );
}

/** The filters hide everything. Names the filters, with a button for each that hides jobs, and one for all. */
function Nothing({ found: { ofOthers, older }, choice, text, total }: FoundProps & { readonly total: number }) {
  const filter = text.trim();
  const filters = [
    ...(choice.owners === null ? [] : ['yours']),
    ...(choice.all ? [] : ['unfinished or from the last day']),
    ...(choice.onlyAttention ? ['in need of attention'] : []),
    ...(filter === '' ? [] : [`matched by ${filter}`]),
  ];
  const clear = { filter: null, attention: null, of: 'everyone', all: '1' };
  return (
    <>
      <FilteredOut onClear={() => changeQuery(clear)}>
        None of {pluralize(total, 'job')} is {formatList(filters)}.
      </FilteredOut>
      <div class="choices">
        {filter !== '' && <button onClick={() => changeQuery({ filter: null })}>Clear {filter}</button>}
        {ofOthers > 0 && (
          <button onClick={() => changeQuery({ of: 'everyone' })}>Show {pluralize(ofOthers, 'job')} of others</button>
        )}
        {older > 0 && <button onClick={() => changeQuery({ all: '1' })}>Show {pluralize(older, 'older job')}</button>}
      </div>
    </>
  );
}

/** The jobs that the view leaves out. */
function Rest({ found: { ofOthers, older, rows } }: { readonly found: ShownRows }) {
  const hidden = [
    ...(ofOthers > 0 ? [`${pluralize(ofOthers, 'job')} of others`] : []),
    ...(older > 0 ? [`${pluralize(older, 'job')} that finished more than a day ago`] : []),
  ];
  return (
    <p class="quiet rest">
      {pluralize(rows.length, 'job')}
      {hidden.length > 0 && ` · not shown: ${hidden.join(', ')}`}
    </p>
  );
}

function selectionOf(rows: readonly JobRow[]): Selection {
  const current = selected.value;
  const count = current.size === 0 ? 0 : rows.reduce((sum, row) => sum + (current.has(keyOfJob(row)) ? 1 : 0), 0);
  const choose = (keys: Iterable<string>): void => {
    selected.value = new Set(keys);
  };
  return {
    has: (key) => current.has(key),
    toggle: (key) => {
      const next = new Set(selected.peek());
      if (!next.delete(key)) next.add(key);
      choose(next);
    },
    toggleAll: () => choose(count === rows.length ? [] : rows.map(keyOfJob)),
    state: count === 0 ? 'none' : count === rows.length ? 'all' : 'some',
  };
}
