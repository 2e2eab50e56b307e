// The report of an import, line by line.

import type { ImportLine } from '../../lab/import-data.ts';
import type { Cli } from '../context.ts';
import { inert } from '../../app/figures.ts';

const marks: Readonly<Record<ImportLine['kind'], string>> = { take: '+', have: '=', leave: '-', note: '!' };

export function showImport(cli: Cli, lines: readonly ImportLine[], isMeant: boolean): void {
  if (cli.json) {
    for (const line of lines) cli.print(JSON.stringify({ ...line, done: isMeant && line.kind === 'take' }));
    return;
  }
  // Entries that exist already are counted only.
  for (const { kind, what, says } of lines) {
    if (kind !== 'have') cli.print(inert(`${marks[kind]} ${what}${says === '' ? '' : `: ${says}`}`, false));
  }
  const count = (kind: ImportLine['kind']): number => lines.filter((line) => line.kind === kind).length;
  const [taken, here, left] = [count('take'), count('have'), count('leave')];
  const rest = `${here} were here already, ${left} ${isMeant ? 'were' : 'would be'} left behind (-).`;
  if (isMeant) cli.tell(`${taken} were taken over (+), ${rest}`);
  else if (taken === 0) cli.tell(`There is nothing to take over: ${rest}`);
  else cli.tell(`${taken} would be taken over (+), ${rest} Nothing was changed; --apply does it.`);
}
