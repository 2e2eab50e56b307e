// The cost by use of the capacity: useful, lost, setup and so on, as a bar with a table of the same.

import './cost-split.css';
import { costTable } from '../../app/cost-table.ts';
import type { JobCost } from '../../reports/cost.ts';

/** `label`: the name of the table, for screen readers. */
export function CostSplit({ cost, label }: { readonly cost: JobCost; readonly label: string }) {
  const { rows } = costTable(cost);
  const { held, waiting } = cost;
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
      <table class="cost-split" aria-label={label}>
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
    </>
  );
}
