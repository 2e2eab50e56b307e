import type { ZonesFlags } from '../table/flags.ts';
import { formatLastAnswer, formatLastGrant, formatZoneJobs, type ZoneRow } from '../../app/zones.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { zoneColumn } from '../../app/report-columns.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Instant } from '../../core/model/time.ts';

export async function zones(cli: Cli, { accelerator, project }: ZonesFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  const client = await cli.services.client();
  const rows = await client.zones(omitUndefined({ accelerator, project }));
  if (cli.json) {
    cli.printJsonLines(rows);
    return 0;
  }
  cli.printAll(zoneLines(rows, columnsOf(io.stdout), io.now()));
  const isFiltered = accelerator !== undefined || project !== undefined;
  if (rows.length === 0) cli.note(isFiltered ? 'No job has requested such a TPU.' : 'No job has requested a TPU yet.');
  return 0;
}

export function zoneLines(rows: readonly ZoneRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  const columns: readonly Column<ZoneRow>[] = [
    zoneColumn(rows),
    { title: 'ACCELERATOR', text: ({ accelerator }) => accelerator },
    { title: 'PRICING', text: ({ pricing }) => pricing },
    { title: 'LAST ANSWER', text: (row) => formatLastAnswer(row, now) },
    { title: 'GRANTED', text: (row) => formatLastGrant(row, now) },
    { title: 'JOBS', text: formatZoneJobs },
  ];
  return fittedTable(columns, rows, dropOrder, terminal);
}

/** The command's help lists this order, too. */
const dropOrder = ['GRANTED', 'JOBS', 'PRICING'] as const;
