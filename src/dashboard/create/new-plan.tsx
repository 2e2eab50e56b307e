// The plan of a new job, as `jobman create --dry-run` shows it, with the quota.

import { capitalize, escapeLine } from '../../app/format.ts';
import { planQuestions, planRefusal } from '../../app/new-job.ts';
import { PlanFacts } from '../job/plan.tsx';
import type { Check } from './check.ts';

export function NewPlan({ check: { plan, problems, quotaWarnings, quotaLeft } }: { readonly check: Check }) {
  if (plan === null)
    return (
      <section aria-label="Plan">
        <h2>Plan</h2>
        <p class="quiet">
          {problems.length > 0 ? 'The plan appears when the manifest has no problems.' : 'Reading the plan…'}
        </p>
      </section>
    );
  const refusal = planRefusal(plan);
  const lines = refusal === null ? planQuestions(plan) : [refusal.message, ...refusal.lines];
  return (
    <>
      <PlanFacts plan={plan} quota={quotaLeft} isShort />
      {quotaWarnings.map((warning) => (
        <p key={warning} class="warn">
          {escapeLine(capitalize(warning))}.
        </p>
      ))}
      {lines.map((line) => (
        <p key={line} class={refusal === null ? 'warn' : 'bad'}>
          {escapeLine(line)}
        </p>
      ))}
    </>
  );
}
