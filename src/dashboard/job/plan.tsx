// The plan of a job: its requests, its steps, its command, the rules after an end, and its limits.

import type { JobView } from '../../app/client.ts';
import { escapeLine } from '../../app/format.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { Failure } from '../parts/messages.tsx';
import { client } from '../session.ts';
import { useRead } from './read.ts';

export function Plan({ view }: { readonly view: JobView }) {
  const { value, failure, again } = useRead(view.id, null, () => client.plan(view.spec));
  if (value === undefined)
    return failure === null ? <p class="quiet">Reading the plan…</p> : <Failure lines={failure} retry={again} />;
  const { requests, steps, command, rules, limits, pricePerHourUsd } = value;
  const parts: readonly (readonly [string, readonly string[]])[] = [
    ['requests', requests],
    ['setup', steps],
    ['runs', [command]],
    ['after an end', rules],
    ['limits', limits],
    ['price', pricePerHourUsd === null ? [] : [formatHourlyCost(value, pricePerHourUsd)]],
  ];
  return (
    <section aria-label="Plan">
      <h2>Plan</h2>
      <dl class="facts">
        {parts
          .filter(([, lines]) => lines.length > 0)
          .map(([label, lines]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>
                {lines.map((line, index) => (
                  <p key={index}>{escapeLine(line)}</p>
                ))}
              </dd>
            </div>
          ))}
      </dl>
    </section>
  );
}
