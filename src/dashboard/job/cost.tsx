// The cost of a job by use of its capacity, its budgets, and what a preemption now would lose.

import type { BudgetView, JobView } from '../../app/client.ts';
import { escapeLine, formatUsd } from '../../app/format.ts';
import { formatBudgetView } from '../../app/job-facts.ts';
import { costTable } from '../../app/cost-table.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { now } from '../clock.ts';
import { CostSplit } from '../parts/cost-split.tsx';
import { Facts, type Fact } from '../parts/facts.tsx';
import { Empty } from '../parts/messages.tsx';
import { Age } from '../parts/time.tsx';
import type { SectionProps } from './page.tsx';

export function CostSection({ view }: SectionProps) {
  const { held, waiting } = view.cost;
  return (
    <section aria-label="Cost" class="cost">
      <h2>Cost</h2>
      {held.durationMs + waiting.durationMs === 0 ? (
        <Empty command={`jobman cost ${view.id}`}>The job has used no capacity yet.</Empty>
      ) : (
        <>
          <CostSplit cost={view.cost} label="Cost by use" />
          <p class="quiet">{costTable(view.cost).note}</p>
        </>
      )}
      {view.pricePerHourUsd !== null && <p>The current price is {formatHourlyCost(view, view.pricePerHourUsd)}.</p>}
      <Budgets view={view} />
      <Checkpoint view={view} />
    </section>
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
  const rows: readonly Fact[] = [
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
      : [['resumed from', `${resumedFrom.name}, the newest when attempt ${resumedFrom.attempt} started`] as const]),
    ['folder', checkpointDir === null ? 'none (job.checkpoint_dir)' : checkpointDir],
    ...(checkpointUrl === null || checkpointUrl === checkpointDir ? [] : [['bucket', checkpointUrl] as const]),
    ...(ifPreempted === null ? [] : [['if preempted', ifPreempted] as const]),
  ];
  return (
    <>
      <h2>Checkpoint</h2>
      <Facts rows={rows} />
    </>
  );
}
