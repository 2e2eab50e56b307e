// The plan of a job: its requests, its steps, its command, the rules after an end, and its limits.

import './plan.css';
import type { ComponentChildren } from 'preact';
import type { JobView, Plan as PlanOfJob } from '../../app/client.ts';
import { escapeLine } from '../../app/format.ts';
import { formatPlanPrice } from '../../app/phrases.ts';
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
  const parts: readonly (readonly [string, readonly string[]])[] = [
    ['requests', requests],
    ['usually', typicalWait === null ? [] : [typicalWait]],
    ['quota', quota],
    ['price', [formatPlanPrice(plan)]],
    ['setup', steps],
    ['limits', limits],
  ];
  return (
    <section aria-label="Plan">
      <h2>Plan</h2>
      <dl class="facts">
        {parts
          .filter(([, lines]) => lines.length > 0)
          .map(([label, lines]) => (
            <Fact key={label} label={label}>
              <Lines lines={lines} />
            </Fact>
          ))}
        <Fact label="after an end">
          <p>{escapeLine(preset)}</p>
          {isShort === true && others.length > 0 ? (
            <details>
              <summary>All rules</summary>
              <Lines lines={others} />
            </details>
          ) : (
            <Lines lines={others} />
          )}
        </Fact>
        <Fact label="runs">
          <code class="script">{command.split('\n').map(escapeLine).join('\n')}</code>
        </Fact>
      </dl>
    </section>
  );
}

function Fact({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Lines({ lines }: { readonly lines: readonly string[] }) {
  return (
    <>
      {lines.map((line, index) => (
        <p key={index}>{escapeLine(line)}</p>
      ))}
    </>
  );
}
