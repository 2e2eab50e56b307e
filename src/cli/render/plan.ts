// The output of `create --dry-run`.

import type { Plan } from '../../app/client.ts';
import { costText } from '../../app/cost.ts';
import { wrap } from './cell.ts';
import { labelled } from './labelled.ts';

/** `verbose` adds the script that runs the command in its environment. */
export function planLines(plan: Plan, columns: number | null, verbose = false): readonly string[] {
  const rows: (readonly [string, string])[] = [];
  // The label stands before the first of its lines only.
  const list = (label: string, texts: readonly string[]) => {
    for (const [index, text] of texts.entries()) rows.push([index === 0 ? label : '', text]);
  };
  list('asks', plan.asks);
  rows.push(['price', priceText(plan)]);
  list('setup', plan.steps);
  list('command', plan.command.trimEnd().split('\n'));
  if (verbose && plan.script !== null) list('script', plan.script.split('\n'));
  list('rules', plan.rules);
  list('limits', plan.limits);
  const head = `${plan.name}: nothing was stored; this is what create would do`;
  return [...(columns === null ? [head] : wrap(head, columns)), ...labelled(rows, columns)];
}

function priceText(plan: Plan): string {
  if (plan.backend === 'local') return 'nothing: it runs here';
  return plan.pricePerHour === null ? 'not known' : `${costText(plan, plan.pricePerHour)}, while it is ready`;
}
