// The jobs: all rows, filters in the address, and the number of jobs in each phase.

import { useComputed, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { JobRow } from '../../app/client.ts';
import { escapeLine, formatMachine, formatPricePerHour } from '../../app/format.ts';
import { phases } from '../../core/decide/phase.ts';
import { address, changeQuery, goTo, pageHref } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { PhaseLabel } from '../parts/phase.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Age, Since } from '../parts/time.tsx';
import { jobRows, followRows } from './rows.ts';

const columns: readonly Column<JobRow>[] = [
  { name: 'id', title: 'Job', width: '5.5rem', cell: (row) => <a href={pageHref(['jobs', row.id])}>{row.id}</a> },
  { name: 'name', title: 'Name', cell: (row) => escapeLine(row.name) },
  { name: 'owner', title: 'Owner', width: '7rem', wide: true, cell: (row) => row.owner ?? '-' },
  { name: 'phase', title: 'Phase', width: '9rem', cell: (row) => <PhaseLabel row={row} /> },
  {
    name: 'since',
    title: 'For',
    width: '5rem',
    align: 'right',
    wide: true,
    cell: (row) => <Since at={row.phaseStartedAt} />,
  },
  { name: 'detail', title: 'Detail', width: '32%', cell: (row) => escapeLine(row.message) },
  {
    name: 'where',
    title: 'Where',
    width: '13rem',
    wide: true,
    cell: (row) => [formatMachine(row), row.zone].filter((one) => one !== null).join(', '),
  },
  {
    name: 'attempt',
    title: 'Attempt',
    width: '5.5rem',
    align: 'right',
    wide: true,
    cell: (row) => String(row.attempt),
  },
  {
    name: 'price',
    title: 'Price',
    width: '6rem',
    align: 'right',
    wide: true,
    cell: (row) => (row.pricePerHourUsd === null ? '-' : formatPricePerHour(row.pricePerHourUsd)),
  },
  { name: 'age', title: 'Age', width: '4.5rem', align: 'right', cell: (row) => <Age at={row.createdAt} /> },
];

export function JobsPage() {
  const shown = useSignal<readonly string[]>([]);
  useEffect(() => followRows(() => shown.peek()), []);
  const query = useComputed(() => address.value.query);
  const state = jobRows.value;
  const wanted = query.value.getAll('phase').flatMap((text) => text.split(','));
  if (state === null) return <p class="quiet">Reading the jobs…</p>;
  const all = [...state.rows.values()];
  const counts = Map.groupBy(all, ({ phase }) => phase);
  const rows = wanted.length === 0 ? all : all.filter(({ phase }) => wanted.includes(phase));
  shown.value = rows.slice(0, 50).map(({ id }) => id);
  return (
    <section class="page page-table">
      <div class="bar">
        <h1>Jobs</h1>
        <div class="toggles" role="group" aria-label="Phases">
          {phases.flatMap((phase) => {
            const count = counts.get(phase)?.length ?? 0;
            const isOn = wanted.includes(phase);
            if (count === 0 && !isOn) return [];
            const next = isOn ? wanted.filter((one) => one !== phase) : [...wanted, phase];
            return [
              <button key={phase} aria-pressed={isOn} onClick={() => changeQuery({ phase: next.join(',') })}>
                {phase} {count}
              </button>,
            ];
          })}
        </div>
        <PageCommand text="jobman list --all" />
      </div>
      {state.failure !== null && <Failure lines={state.failure} retry={null} />}
      {state.failure !== null && all.length === 0 ? null : all.length === 0 && state.isComplete ? (
        <Empty command="jobman create configs/quick-start.yaml">
          No jobs yet. This command runs one here in a minute.
        </Empty>
      ) : rows.length === 0 && state.isComplete ? (
        <FilteredOut onClear={() => changeQuery({ phase: null })}>
          None of {all.length} jobs is {wanted.join(' or ')}.
        </FilteredOut>
      ) : (
        <Table
          label="Jobs"
          rows={rows}
          columns={columns}
          keyOf={({ id }) => id}
          onOpen={({ id }) => goTo(pageHref(['jobs', id]))}
        />
      )}
    </section>
  );
}
