// The columns of the list of jobs, and its two lines on a narrow screen.

import type { JobRow } from '../../app/client.ts';
import { escapeLine, formatMachine, formatPricePerHour, reasonPhrases } from '../../app/format.ts';
import type { Reason } from '../../core/model/spec.ts';
import { jobHref } from './job-key.ts';
import { PhaseLabel } from '../parts/phase.tsx';
import type { Column } from '../parts/table.tsx';
import { Age, Since } from '../parts/time.tsx';

const owner: Column<JobRow> = {
  name: 'owner',
  title: 'Owner',
  width: '6.5rem',
  wide: true,
  cell: (row) => escapeLine(row.owner ?? '-'),
};

const others: readonly Column<JobRow>[] = [
  { name: 'phase', title: 'Phase', width: '8.5rem', cell: (row) => <PhaseLabel row={row} /> },
  {
    name: 'since',
    title: 'For',
    width: '5.2rem',
    align: 'right',
    wide: true,
    cell: (row) => <Since at={row.phaseStartedAt} />,
  },
  { name: 'detail', title: 'Detail', width: '19%', cell: (row) => escapeLine(row.message) },
  {
    name: 'where',
    title: 'Where',
    width: '16.5rem',
    wide: true,
    cell: (row) => <span title={whereOf(row)}>{whereOf(row)}</span>,
  },
  { name: 'attempts', title: 'Attempts', width: '6.5rem', wide: true, cell: (row) => <Attempts row={row} /> },
  {
    name: 'price',
    title: 'Price',
    width: '6.5rem',
    align: 'right',
    wide: true,
    cell: (row) => (row.pricePerHourUsd === null ? '-' : formatPricePerHour(row.pricePerHourUsd)),
  },
  { name: 'age', title: 'Age', width: '3.5rem', align: 'right', cell: (row) => <Age at={row.createdAt} /> },
];

const first: readonly Column<JobRow>[] = [
  { name: 'id', title: 'Job', width: '5rem', cell: (row) => <JobLink row={row} /> },
  { name: 'name', title: 'Name', cell: (row) => <Name row={row} /> },
];

export const ownColumns: readonly Column<JobRow>[] = [...first, ...others];
/** With the owner. */
export const allColumns: readonly Column<JobRow>[] = [...first, owner, ...others];

export function JobLines({ row }: { readonly row: JobRow }) {
  return (
    <div class="row-lines">
      <span class="line">
        {row.backend !== 'kubernetes' && <JobLink row={row} />} <NameLink row={row} />
      </span>
      <PhaseLabel row={row} />
      <span class="line quiet">{[escapeLine(row.message), whereOf(row)].join(' · ')}</span>
      <span class="quiet">
        <Age at={row.createdAt} />
      </span>
    </div>
  );
}

function JobLink({ row }: { readonly row: JobRow }) {
  // A job of a cluster has its name as its id, which the next column shows.
  return row.backend === 'kubernetes' ? <>-</> : <a href={jobHref(row)}>{row.id}</a>;
}

function NameLink({ row }: { readonly row: JobRow }) {
  return row.backend === 'kubernetes' ? <a href={jobHref(row)}>{escapeLine(row.name)}</a> : <>{escapeLine(row.name)}</>;
}

function Name({ row }: { readonly row: JobRow }) {
  const { tags } = row;
  return (
    <>
      <NameLink row={row} />
      {tags.map((tag) => (
        <span key={tag} class="tag">
          {escapeLine(tag)}
        </span>
      ))}
    </>
  );
}

function whereOf(row: JobRow): string {
  // A job of another tool in a cluster may request nothing.
  const isUnknown = row.backend === 'kubernetes' && row.accelerator === null;
  const machine = isUnknown ? null : [formatMachine(row), row.pricing].filter((one) => one !== null).join(' ');
  return escapeLine([machine, row.zone].filter((one) => one !== null).join(', '));
}

const tickClasses: Readonly<Record<Reason, string>> = {
  succeeded: 'good',
  stopped: 'quiet',
  preempted: 'warn',
  unreachable: 'warn',
  allocation_failed: 'bad',
  setup_failed: 'bad',
  command_failed: 'bad',
  hung: 'bad',
  timed_out: 'bad',
  budget: 'bad',
};

/** The number of attempts, and a tick for each of the newest ones, coloured by its end. */
function Attempts({ row: { attempt, attemptEnds, backend } }: { readonly row: JobRow }) {
  if (backend === 'kubernetes') return <>-</>;
  const ends = attemptEnds.map((end) => (end === null ? 'not ended' : reasonPhrases[end]));
  const text = `${attempt}${ends.length === 0 ? '' : `: ${ends.join(', ')}`}`;
  return (
    <span class="attempts" role="img" aria-label={text} title={text}>
      <span>{attempt}</span>
      {attemptEnds.map((end, index) => (
        <i key={index} class={end === null ? 'tick' : `tick tick-${tickClasses[end]}`} />
      ))}
    </span>
  );
}
