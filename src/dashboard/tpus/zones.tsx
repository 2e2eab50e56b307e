// The zones: chips by use with the limit of the quota, and the newest answers of the clouds to requests for capacity.

import { useSignal } from '@preact/signals';
import { generationOf } from '../../catalogue/accelerators.ts';
import { escapeLine, formatAge } from '../../app/format.ts';
import type { UnreadLimits } from '../../app/quota.ts';
import { zoneColumn } from '../../app/report-columns.ts';
import { formatUnread } from '../../app/tpu-phrases.ts';
import { formatZoneUsers, type TopZone } from '../../app/top.ts';
import { formatLastAnswer, formatLastGrant, type ZoneRow } from '../../app/zones.ts';
import { now } from '../clock.ts';
import { pageHref } from '../location.ts';
import { Command } from '../parts/command.tsx';
import { Failure } from '../parts/messages.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { client, errorLines } from '../session.ts';
import type { TpuChoice } from './select-tpus.ts';

type ZoneChoice = Pick<TpuChoice, 'zone' | 'type'>;

/** A type selects the zones that have its generation. */
function zonesOf(zones: readonly TopZone[], { zone, type }: ZoneChoice): readonly TopZone[] {
  const generation = type === null ? null : (generationOf(type)?.name ?? type);
  return zones.filter(
    (one) => (zone === null || one.zone === zone) && (generation === null || one.generation === generation),
  );
}

interface ZonesProps {
  readonly zones: readonly TopZone[];
  readonly choice: ZoneChoice;
  readonly onLimits: () => void;
}

export function Zones({ zones, choice, onLimits }: ZonesProps) {
  const rows = zonesOf(zones, choice);
  if (rows.length === 0) return null;
  const zone = zoneColumn(rows);
  const columns: readonly PlainColumn<TopZone>[] = [
    { title: 'Zone', cell: (row) => escapeLine(zone.text(row)) },
    ...chipColumns,
  ];
  return (
    <section aria-labelledby="zones">
      <div class="bar">
        <h2 id="zones">Chips by zone</h2>
        <Limits onRead={onLimits} />
        <Command text="jobman quota" />
      </div>
      <PlainTable
        label="Chips by zone"
        kind="numbers"
        rows={rows}
        columns={columns}
        keyOf={({ project, zone, generation }) => `${project}/${zone}/${generation}`}
      />
    </section>
  );
}

const chipColumns: readonly PlainColumn<TopZone>[] = [
  { title: 'Generation', cell: ({ generation }) => escapeLine(generation ?? '?') },
  {
    title: 'Limit',
    side: 'right',
    hint: () => 'The quotas of all pricings together',
    cell: ({ limitChips, limitReadAt }) => (
      <>
        {limitChips ?? '-'}
        {limitReadAt !== null && <span class="quiet"> {formatAge(now.value - limitReadAt)} ago</span>}
      </>
    ),
  },
  { title: 'Held', side: 'right', cell: ({ heldChips }) => chips(heldChips) },
  { title: 'Busy', side: 'right', wide: true, cell: ({ busyChips }) => chips(busyChips) },
  {
    title: 'Idle',
    side: 'right',
    cellClass: ({ idleChips }) => (idleChips === 0 ? '' : 'use-idle'),
    cell: ({ idleChips, idleSinceAt }) => (
      <>
        {chips(idleChips)}
        {idleSinceAt !== null && <span> for {formatAge(now.value - idleSinceAt)}</span>}
      </>
    ),
  },
  { title: 'Waiting', side: 'right', cell: ({ waitingChips }) => chips(waitingChips) },
  {
    title: 'Ended',
    side: 'right',
    wide: true,
    cellClass: ({ endedChips }) => (endedChips === 0 ? '' : 'use-ended'),
    cell: ({ endedChips }) => chips(endedChips),
  },
  {
    title: 'Orphans',
    side: 'right',
    wide: true,
    cellClass: ({ orphanChips }) => (orphanChips === 0 ? '' : 'use-idle'),
    cell: ({ orphanChips }) => chips(orphanChips),
  },
  { title: 'Held by', wide: true, cell: (row) => escapeLine(formatZoneUsers(row)) },
  {
    title: 'Checked',
    side: 'right',
    wide: true,
    cell: ({ checkedAt }) => (checkedAt === null ? 'never' : `${formatAge(now.value - checkedAt)} ago`),
  },
];

/** Unknown is not 0. */
function chips(count: number | null): string {
  return count === null ? '?' : String(count);
}

/** Reads the limits from the clouds, which no other part of the page does. */
function Limits({ onRead }: { readonly onRead: () => void }) {
  const isReading = useSignal(false);
  const failures = useSignal<readonly (readonly string[])[] | null>(null);
  const read = async (): Promise<void> => {
    if (isReading.peek()) return;
    isReading.value = true;
    failures.value = await client.quota({}).then(
      ({ unread }) => unread.map(linesOf),
      (error: unknown) => [errorLines(error)],
    );
    isReading.value = false;
    onRead();
  };
  const problems = failures.value ?? [];
  return (
    <>
      <button aria-disabled={isReading.value} onClick={() => void read()}>
        {isReading.value ? 'Reading the limits…' : 'Read the limits now'}
      </button>
      {failures.value?.length === 0 && <span class="quiet">Google lists no limit for a zone without a number.</span>}
      {problems.map((lines) => (
        <Failure key={lines[0] ?? ''} lines={lines} retry={null} />
      ))}
    </>
  );
}

function linesOf(unread: UnreadLimits): readonly string[] {
  return [`${formatUnread(unread)}.`, ...(unread.fix === null ? [] : [unread.fix])];
}

interface AnswersProps {
  readonly rows: readonly ZoneRow[];
  readonly choice: ZoneChoice;
}

export function Answers({ rows, choice: { zone, type } }: AnswersProps) {
  const shown = rows.filter(
    (row) => (zone === null || row.zone === zone) && (type === null || row.accelerator === type),
  );
  return (
    <section aria-labelledby="answers">
      <div class="bar">
        <h2 id="answers">Answers to requests for capacity</h2>
        <Command text="jobman zones" />
      </div>
      {shown.length === 0 ? (
        <p class="quiet">
          {rows.length === 0 ? 'No job has requested a TPU yet.' : 'No job has requested such a TPU.'}
        </p>
      ) : (
        <PlainTable
          label="Answers to requests for capacity"
          kind="numbers"
          rows={shown}
          columns={answerColumns}
          keyOf={({ project, zone, accelerator, pricing }) => [project, zone, accelerator, pricing].join('/')}
        />
      )}
    </section>
  );
}

const answerColumns: readonly PlainColumn<ZoneRow>[] = [
  { title: 'Zone', cell: ({ zone }) => escapeLine(zone) },
  { title: 'Type', cell: ({ accelerator, pricing }) => escapeLine(`${accelerator} ${pricing}`) },
  { title: 'Newest answer', cell: (row) => formatLastAnswer(row, now.value) },
  { title: 'Newest TPU', cell: (row) => formatLastGrant(row, now.value) },
  { title: 'Held by jobs', wide: true, cell: ({ heldBy }) => <JobLinks ids={heldBy} /> },
  { title: 'Awaited by jobs', wide: true, cell: ({ awaitedBy }) => <JobLinks ids={awaitedBy} /> },
];

/** The list of jobs has the others. */
const maxLinks = 4;

function JobLinks({ ids }: { readonly ids: readonly string[] }) {
  if (ids.length === 0) return <>-</>;
  return (
    <>
      {ids.slice(0, maxLinks).map((id, index) => (
        <span key={id}>
          {index > 0 && ', '}
          <a href={pageHref(['jobs', id])}>{id}</a>
        </span>
      ))}
      {ids.length > maxLinks && ` and ${ids.length - maxLinks} more`}
    </>
  );
}
