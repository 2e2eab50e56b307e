// zones: what the places of a cloud have answered to jobs, and what we hold there.

import type { ZoneRow } from '../../app/zones.ts';
import { given } from '../../core/given.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { moment } from '../../app/moment.ts';
import { zoneLines } from '../render/zones.ts';
import { columnsOf } from '../screen.ts';

export interface ZonesFlags {
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
