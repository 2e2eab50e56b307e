// zones: what the places of a cloud have answered to jobs, and what we hold there.

import { ageText, lengthText, moment } from '../../app/figures.ts';
import { refusalWords } from '../../app/phrases.ts';
import type { ZoneRow } from '../../app/zones.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';

interface ZonesFlags {
  readonly accelerator?: string | undefined;
  readonly project?: string | undefined;
}

export async function zones(cli: Cli, { accelerator, project }: ZonesFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  const client = await cli.services.client();
  const rows = await client.zones(given({ accelerator, project }));
  if (cli.json) {
    cli.printObjects(rows.map(zoneJson));
    return 0;
  }
  cli.printAll(zoneLines(rows, columnsOf(io.stdout), io.now()));
  if (rows.length === 0) cli.note('No job has asked for a TPU there yet.');
  return 0;
}

function zoneJson(row: ZoneRow): object {
  return {
    ...row,
    last: row.last === null ? null : { ...row.last, at: moment(row.last.at) },
    gave: row.gave === null ? null : { ...row.gave, at: moment(row.gave.at) },
  };
}

export function zoneLines(rows: readonly ZoneRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  const columns: readonly Column<ZoneRow>[] = [
    { title: 'ZONE', side: 'left', text: ({ project, zone }) => (isOneProject ? zone : `${project}/${zone}`) },
    { title: 'ACCELERATOR', side: 'left', text: ({ accelerator }) => accelerator },
    { title: 'PRICING', side: 'left', text: ({ pricing }) => pricing },
    { title: 'LAST ANSWER', side: 'left', text: (row) => lastText(row, now) },
    { title: 'GOT ONE', side: 'left', text: (row) => gaveText(row, now) },
    { title: 'JOBS', side: 'left', text: jobsText },
  ];
  return fittedTable(columns, rows, dropOrder, terminal);
}

/** The page of the command names this order, too. */
const dropOrder = ['GOT ONE', 'JOBS', 'PRICING'] as const;

function lastText({ last }: ZoneRow, now: Instant): string {
  if (last === null) return 'none yet';
  const word =
    last.answer === 'ready' ? 'gave one' : last.answer === 'waiting' ? 'a long queue' : refusalWords[last.answer];
  return `${word}, ${ageText(now - last.at)} ago`;
}

function gaveText({ gave }: ZoneRow, now: Instant): string {
  return gave === null ? 'never' : `${ageText(now - gave.at)} ago after ${lengthText(gave.waited)}`;
}

function jobsText({ holds, awaits }: ZoneRow): string {
  const parts = [
    ...(holds.length === 0 ? [] : [`held by ${holds.join(', ')}`]),
    ...(awaits.length === 0 ? [] : [`awaited by ${awaits.join(', ')}`]),
  ];
  return parts.length === 0 ? '-' : parts.join('; ');
}
