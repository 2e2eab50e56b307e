// Facts about an object: a name and a value in each row.

import './facts.css';
import type { VNode } from 'preact';
import { escapeLine } from '../../app/format.ts';

/** The value is a line, several lines, or elements. An empty name continues the fact above it. */
export type Fact = readonly [name: string, value: string | readonly string[] | VNode];

/** Facts without lines are left out. */
export function Facts({ rows }: { readonly rows: readonly Fact[] }) {
  return (
    <dl class="facts">
      {rows.map(([name, value], index) =>
        Array.isArray(value) && value.length === 0 ? null : (
          <div key={index}>
            <dt>{name}</dt>
            <dd>
              {typeof value === 'string' ? escapeLine(value) : Array.isArray(value) ? <Lines lines={value} /> : value}
            </dd>
          </div>
        ),
      )}
    </dl>
  );
}

export function Lines({ lines }: { readonly lines: readonly string[] }) {
  return (
    <>
      {lines.map((line, index) => (
        <p key={index}>{escapeLine(line)}</p>
      ))}
    </>
  );
}
