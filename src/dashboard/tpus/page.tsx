// The TPUs: who holds what, what is idle and costs money, the chips of each zone, and the answers to requests. Filters are in the
// address.

import { useComputed, useSignal } from '@preact/signals';
import { useMemo, useRef } from 'preact/hooks';
import './tpus.css';
import { quote } from '../../catalogue/shell.ts';
import { capitalize, escapeLine, formatAge, formatList, pluralize } from '../../app/format.ts';
import { idleCostOf, knownTpus, tpuKey, type CheckedTpus, type KnownTpu } from '../../app/known-tpus.ts';
import { releaseOf } from '../../app/reclaim.ts';
import { topZones } from '../../app/top.ts';
import { formatTotals, formatUnchecked, noProject } from '../../app/tpu-phrases.ts';
import type { UncheckedLocation } from '../../app/tpus.ts';
import { compareText } from '../../core/model/compare-text.ts';
import type { Actor } from '../../core/model/user.ts';
import { permittedOwners } from '../../core/policy/permissions.ts';
import { now } from '../clock.ts';
import type { ReadState } from '../job/read.ts';
import { useKeys } from '../keys.ts';
import { address, changeQuery } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { useReading } from '../parts/reading.tsx';
import { Table } from '../parts/table.tsx';
import { actorOf, client, session } from '../session.ts';
import { TpuLines, tpuColumns, type TpuLine } from './columns.tsx';
import { performRelease, TpuDetail } from './detail.tsx';
import { useClouds, useStore, type CloudState } from './read.ts';
import { inOrderOf, readChoice, selectTpus, tpuStates, type ShownTpus, type TpuChoice } from './select-tpus.ts';
import { Answers, Zones } from './zones.tsx';

export function TpusPage() {
  const { query } = address.value;
  const actor = actorOf(session.value);
  const store = useStore().value;
  const clouds = useClouds(query.get('all') === '1');
  const aliases = useAliases(actor);
  const isHeld = useSignal(false);
  const order = useRef<readonly string[]>([]);
  const answer = useSignal<readonly string[]>([]);
  const choice = useComputed(() => readChoice(address.value.query)).value;
  useKeys([{ key: 'r', summary: 'Check the clouds again', act: clouds.again }], []);
  const tpus = checkedOf(clouds);
  const { jobs } = store;
  const known = useMemo(() => knownTpus(jobs ?? [], tpus), [jobs, clouds.value, clouds.failure]);
  const zones = useMemo(() => topZones(known, { tpus, limits: clouds.value?.limits ?? [] }), [known]);
  const found = useMemo(() => selectTpus(known, choice, aliases, now.peek()), [known, choice, aliases]);
  const rows = isHeld.value ? inOrderOf(order.current, found.rows) : found.rows;
  order.current = rows.map(tpuKey);
  const lines = useMemo(
    () => rows.map((tpu) => lineOf(tpu, aliases, tpus.at, actor)),
    [rows.length, order.current.join(), known, aliases, actor],
  );
  const open = ({ tpu }: TpuLine): void => changeQuery({ tpu: tpuKey(tpu) });
  const columns = useMemo(() => tpuColumns(open), []);
  const opened = query.get('tpu');
  const shown = opened === null ? undefined : known.find((tpu) => tpuKey(tpu) === opened);
  return (
    <section class="page tpus">
      <div class="bar">
        <h1>TPUs</h1>
        <Filters known={known} choice={choice} found={found} isAll={query.get('all') === '1'} />
        <PageCommand text={commandOf(choice, query.get('all') === '1')} />
      </div>
      {store.failure !== null && <Failure lines={store.failure} retry={null} />}
      <Gaps clouds={clouds} tpus={tpus} />
      <div role="status" class="answer">
        {answer.value.map((line) => (
          <p key={line}>{escapeLine(line)}</p>
        ))}
      </div>
      {lines.length > 0 ? (
        <>
          <Table
            label="TPUs"
            rows={lines}
            columns={columns}
            twoLines={(line) => <TpuLines line={line} />}
            keyOf={({ tpu }) => tpuKey(tpu)}
            onOpen={open}
            onHold={(next) => (isHeld.value = next)}
          />
          <Summary rows={rows} tpus={tpus} />
        </>
      ) : (
        <Nothing known={known} choice={choice} clouds={clouds} isRead={jobs !== null} />
      )}
      <Zones zones={zones} choice={choice} onLimits={clouds.again} />
      {jobs !== null && <Answers rows={store.zones} choice={choice} />}
      {shown !== undefined && actor !== null && (
        <TpuDetail
          line={lineOf(shown, aliases, tpus.at, actor)}
          release={releaseOf(shown, actor)}
          onClose={() => changeQuery({ tpu: null })}
          onRelease={(onBehalfOf) => {
            const release = releaseOf(shown, actor);
            changeQuery({ tpu: null });
            if (release.kind === 'none') return;
            answer.value = [`Sent the request to release ${shown.name}.`];
            void performRelease(release, onBehalfOf, (next) => (answer.value = next)).finally(clouds.again);
          }}
        />
      )}
    </section>
  );
}

/** The newest list; a failure of the newest read is its message. */
function checkedOf({ value, failure }: ReadState<CloudState>): CheckedTpus {
  const message = failure?.[0] ?? null;
  return value === undefined ? { list: null, at: now.peek(), message } : { ...value.tpus, message };
}

type Aliases = (name: string) => readonly string[];

/** The other names of the TPUs of a lab. They are only names, so the page works without them. */
function useAliases(actor: Actor | null): Aliases {
  const mayRead = actor !== null && permittedOwners(actor, 'lab') === null;
  const { value } = useReading(() => (mayRead ? client.lab.tpuAliases() : Promise.resolve({})), [mayRead]);
  return useMemo(() => {
    const names = Object.entries(value ?? {});
    return (name) => names.flatMap(([alias, full]) => (full === name ? [alias] : []));
  }, [value]);
}

function lineOf(tpu: KnownTpu, aliases: Aliases, checkedAt: number, actor: Actor | null): TpuLine {
  return {
    tpu,
    aliases: aliases(tpu.name),
    isOld: tpu.checkedAt !== null && tpu.checkedAt < checkedAt,
    isReleasable: tpu.use !== 'busy' && actor !== null && releaseOf(tpu, actor).kind !== 'none',
  };
}

function commandOf({ zone }: TpuChoice, all: boolean): string {
  return ['jobman tpus', ...(zone === null ? [] : [`--zone ${quote(zone)}`]), ...(all ? ['--all'] : [])].join(' ');
}

interface FiltersProps {
  readonly known: readonly KnownTpu[];
  readonly choice: TpuChoice;
  readonly found: ShownTpus;
  readonly isAll: boolean;
}

function Filters({ known, choice, found, isAll }: FiltersProps) {
  const input = useRef<HTMLInputElement>(null);
  useKeys([{ key: '/', summary: 'Filter', act: () => input.current?.focus() }], []);
  const select = (name: 'zone' | 'type', label: string, values: readonly (string | null)[]) => (
    <label class="switch">
      {label}
      <select value={choice[name] ?? ''} onChange={(event) => changeQuery({ [name]: event.currentTarget.value })}>
        <option value="">all</option>
        {[...new Set([...values, choice[name]].filter((value) => value !== null))]
          .toSorted(compareText)
          .map((value) => (
            <option key={value} value={value}>
              {escapeLine(value)}
            </option>
          ))}
      </select>
    </label>
  );
  return (
    <>
      <input
        ref={input}
        type="search"
        aria-label="Filter"
        placeholder="name, owner, job or state"
        value={choice.text}
        onInput={(event) => changeQuery({ filter: event.currentTarget.value })}
      />
      {select(
        'zone',
        'Zone',
        known.map(({ zone }) => zone),
      )}
      {select(
        'type',
        'Type',
        known.map(({ accelerator }) => accelerator),
      )}
      <div class="toggles" role="group" aria-label="Use">
        {tpuStates.flatMap((state) => {
          const count = found.counts.get(state) ?? 0;
          const isOn = choice.state === state;
          if (count === 0 && !isOn) return [];
          return [
            <button key={state} aria-pressed={isOn} onClick={() => changeQuery({ state: isOn ? null : state })}>
              {state} {count}
            </button>,
          ];
        })}
      </div>
      <label class="switch" title="Off: the zones that the settings and the jobs name, or all if they name none">
        <input
          type="checkbox"
          checked={isAll}
          onChange={(event) => changeQuery({ all: event.currentTarget.checked ? '1' : null })}
        />
        All zones
      </label>
    </>
  );
}

/** The messages of the clouds that did not answer, with the age of the old rows. */
function Gaps({
  clouds: { failure, again },
  tpus,
}: {
  readonly clouds: ReadState<CloudState>;
  readonly tpus: CheckedTpus;
}) {
  const { list, at } = tpus;
  const age = (readAt: number) => `Its rows below are ${formatAge(now.value - readAt)} old.`;
  if (failure !== null)
    return (
      <Failure
        lines={[
          ...failure,
          ...(list === null ? [] : [`The lists of the clouds are ${formatAge(now.value - at)} old.`]),
        ]}
        retry={again}
      />
    );
  const gaps = list?.unchecked ?? [];
  return (
    <>
      {gaps.map((gap) => {
        const rows = (tpus.older ?? []).filter(
          ({ row }) => row.project === gap.project && (gap.zone === null || gap.zone === row.zone),
        );
        const oldest = rows.length === 0 ? [] : [age(Math.min(...rows.map((one) => one.at)))];
        return <Gap key={`${gap.project}/${gap.zone}`} gap={gap} lines={oldest} again={again} />;
      })}
    </>
  );
}

interface GapProps {
  readonly gap: UncheckedLocation;
  readonly lines: readonly string[];
  readonly again: () => void;
}

function Gap({ gap, lines, again }: GapProps) {
  const sentence = `${capitalize(formatUnchecked(gap))}.`;
  if (gap.isEmulatorStopped) return <p class="quiet">{escapeLine([sentence, ...lines].join(' '))}</p>;
  return <Failure lines={[sentence, ...lines, ...(gap.fix === undefined ? [] : [gap.fix])]} retry={again} />;
}

function Summary({ rows, tpus }: { readonly rows: readonly KnownTpu[]; readonly tpus: CheckedTpus }) {
  const totals = rows.map((tpu) => ({
    ...tpu,
    state: tpu.state ?? '',
    idleMs: tpu.idleSinceAt === null ? null : now.value - tpu.idleSinceAt,
    idleCostUsd: idleCostOf(tpu, now.value),
  }));
  const isSimulated = rows.some(({ simulated }) => simulated);
  return (
    <p class="quiet rest">
      {formatTotals(totals)} · sorted by idle cost ·{' '}
      {tpus.list === null
        ? 'reading the TPUs of the clouds; until then, the list has only the TPUs of jobs'
        : `clouds checked ${formatAge(now.value - tpus.at)} ago`}
      {isSimulated && ' · the TPU emulator is free; its prices are those of Google'}
    </p>
  );
}

interface NothingProps {
  readonly known: readonly KnownTpu[];
  readonly choice: TpuChoice;
  readonly clouds: ReadState<CloudState>;
  readonly isRead: boolean;
}

function Nothing({ known, choice: { zone, type, state, text }, clouds: { value, failure }, isRead }: NothingProps) {
  if (known.length > 0) {
    const filters = [
      ...(state === null ? [] : [state]),
      ...(type === null ? [] : [`a ${type}`]),
      ...(zone === null ? [] : [`in ${zone}`]),
      ...(text.trim() === '' ? [] : [`matched by “${text.trim()}”`]),
    ];
    return (
      <FilteredOut onClear={() => changeQuery({ zone: null, type: null, state: null, filter: null })}>
        None of {pluralize(known.length, 'TPU')} is {escapeLine(formatList(filters))}.
      </FilteredOut>
    );
  }
  if (value === undefined || !isRead) return failure === null ? <p class="quiet">Reading the TPUs…</p> : null;
  if (failure !== null || (value.tpus.list?.unchecked.length ?? 0) > 0)
    return <p class="quiet">No TPU is known. Some locations could not be checked.</p>;
  return (
    <Empty command="jobman create configs/quick-start.yaml">
      {value.hasProject ? 'No TPU is held or requested.' : noProject} This command runs an example on the TPU emulator.
    </Empty>
  );
}
