// The cost of a job by use of its capacity, its budgets, and what a preemption now would lose.

import type { ComponentChild } from 'preact';
import type { BudgetView, JobView } from '../../app/client.ts';
import { costTable } from '../../app/cost-table.ts';
import { escapeLine, formatUsd } from '../../app/format.ts';
import { formatBudgetView } from '../../app/job-facts.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { now } from '../clock.ts';
import { Empty } from '../parts/messages.tsx';
import { Age } from '../parts/time.tsx';
import type { SectionProps } from './page.tsx';

export function CostSection({ view }: SectionProps) {
  return (
    <section aria-label="Cost" class="cost">
      <h2>Cost</h2>
      <Split view={view} />
      <Budgets view={view} />
      <Checkpoint view={view} />
    </section>
  );
}

function Split({ view }: { readonly view: JobView }) {
  const { rows, note } = costTable(view.cost);
  const { held, waiting } = view.cost;
  if (held.durationMs + waiting.durationMs === 0)
    return <Empty command={`jobman cost ${view.id}`}>The job has used no capacity yet.</Empty>;
  const all = held.durationMs + waiting.durationMs;
  const parts = rows.filter(({ use }) => use !== 'total');
  let start = 0;
  return (
    <>
      <svg class="split" role="img" aria-label="Time by use; the table shows the same" width="100%" height={18}>
        {parts.map(({ use, durationMs, time }) => {
          const from = start;
          start += durationMs;
          return (
            <rect
              key={use}
              class={`use-${use}`}
              x={`${(100 * from) / all}%`}
              width={`${(100 * durationMs) / all}%`}
              y={0}
              height={18}
            >
              <title>
                {use} {time}
              </title>
            </rect>
          );
        })}
      </svg>
      <table aria-label="Cost by use">
        <thead>
          <tr>
            <th scope="col">Use</th>
            <th scope="col" class="right">
              Time
            </th>
            <th scope="col" class="right">
              Share
            </th>
            <th scope="col" class="right">
              Estimate
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ use, durationMs, time, estimate }) => (
            <tr key={use} class={use === 'total' ? 'total' : ''}>
              <th scope="row">
                {use !== 'total' && (
                  <svg width={12} height={12} aria-hidden="true">
                    <rect class={`use-${use}`} width={12} height={12} rx={2} />
                  </svg>
                )}{' '}
                {use}
              </th>
              <td class="right">{time}</td>
              <td class="right">{use === 'total' ? '' : `${Math.round((100 * durationMs) / all)}%`}</td>
              <td class="right">{estimate}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">{note}</p>
      {view.pricePerHourUsd !== null && <p>The current price is {formatHourlyCost(view, view.pricePerHourUsd)}.</p>}
    </>
  );
}

function Budgets({ view }: { readonly view: JobView }) {
  return (
    <>
      <h2>Budgets</h2>
      {view.budgets.length === 0 && <p class="quiet">No budget limits the job (job.budget, or a grant).</p>}
      <ul class="budgets">
        {view.budgets.map((budget, index) => (
          <li key={index}>
            <progress
              max={budget.budgetUsd}
              value={Math.min(budget.spentUsd, budget.budgetUsd)}
              aria-label={`Used part of ${nameOf(budget)}`}
            />{' '}
            {escapeLine(nameOf(budget))}: {escapeLine(formatBudgetView(view, budget, now.value))}
          </li>
        ))}
      </ul>
    </>
  );
}

function nameOf({ ownerBudget, budgetUsd }: BudgetView): string {
  return ownerBudget === null ? `job.budget of ${formatUsd(budgetUsd)}` : `grant ${ownerBudget.grant}`;
}

function Checkpoint({
  view: { checkpoint, resumedFrom, checkpointDir, checkpointUrl, ifPreempted },
}: {
  readonly view: JobView;
}) {
  const rows: readonly (readonly [string, ComponentChild])[] = [
    [
      'newest',
      checkpoint === null ? (
        'none that jobman can see'
      ) : (
        <>
          {escapeLine(checkpoint.name)}, saved <Age at={checkpoint.savedAt} /> ago, in{' '}
          {escapeLine(`${checkpoint.folder.host}:${checkpoint.folder.path}`)}
        </>
      ),
    ],
    ...(resumedFrom === null
      ? []
      : [
          [
            'resumed from',
            `${escapeLine(resumedFrom.name)}, the newest when attempt ${resumedFrom.attempt} started`,
          ] as const,
        ]),
    ['folder', checkpointDir === null ? 'none (job.checkpoint_dir)' : escapeLine(checkpointDir)],
    ...(checkpointUrl === null || checkpointUrl === checkpointDir
      ? []
      : [['bucket', escapeLine(checkpointUrl)] as const]),
    ...(ifPreempted === null ? [] : [['if preempted', escapeLine(ifPreempted)] as const]),
  ];
  return (
    <>
      <h2>Checkpoint</h2>
      <dl class="facts">
        {rows.map(([label, text]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}
