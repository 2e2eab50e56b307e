// The plan of a job: its requests, its steps, its command, the rules after an end, and its limits.

import type { JobView, Plan as PlanOfJob } from '../../app/client.ts';
import { escapeLine } from '../../app/format.ts';
import { formatPlanPrice } from '../../app/phrases.ts';
import { Facts, Lines, type Fact } from '../parts/facts.tsx';
import { Failure } from '../parts/messages.tsx';
import { client } from '../session.ts';
import { useRead } from './read.ts';

export function Plan({ view }: { readonly view: JobView }) {
  const { value, failure, again } = useRead(view.id, null, () => client.plan(view.spec));
  if (value === undefined)
    return failure === null ? <p class="quiet">Reading the plan…</p> : <Failure lines={failure} retry={again} />;
  return <PlanFacts plan={value} quota={[]} />;
}

interface PlanFactsProps {
  readonly plan: PlanOfJob;
  /** Phrases for the chips that the quota leaves. */
  readonly quota: readonly string[];
  /** Folds the rules after the first, which names the preset. */
  readonly isShort?: true;
}

export function PlanFacts({ plan, quota, isShort }: PlanFactsProps) {
  const { requests, steps, command, rules, limits, typicalWait } = plan;
  const [preset = '', ...others] = rules;
  const rows: readonly Fact[] = [
    ['requests', requests],
    ['usually', typicalWait === null ? [] : typicalWait],
    ['quota', quota],
    ['price', formatPlanPrice(plan)],
    ['setup', steps],
    ['limits', limits],
    [
      'after an end',
      <>
        <Lines lines={[preset]} />
        {isShort === true && others.length > 0 ? (
          <details>
            <summary>All rules</summary>
            <Lines lines={others} />
          </details>
        ) : (
          <Lines lines={others} />
        )}
      </>,
    ],
    ['runs', <code class="script">{command.split('\n').map(escapeLine).join('\n')}</code>],
  ];
  return (
    <section aria-label="Plan">
      <h2>Plan</h2>
      <Facts rows={rows} />
    </section>
  );
}
