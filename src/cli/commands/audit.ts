import type { AuditRow } from '../../app/audit.ts';
import { formatAuditDetail, formatAuditMeans, formatAuditObject } from '../../app/audit-text.ts';
import { exitCode } from '../../app/errors.ts';
import { maxPage } from '../../app/pages.ts';
import { formatTimestamp } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { AuditFlags } from '../table/flags.ts';
import { isIdRef } from '../../app/refs.ts';

const columns: readonly Column<AuditRow>[] = [
  { title: 'ROW', side: 'right', text: ({ seq }) => String(seq) },
  { title: 'TIME', text: ({ at }) => formatTimestamp(at) },
  { title: 'USER', text: ({ actor }) => actor },
  { title: 'BY', text: formatAuditMeans },
  { title: 'OUTCOME', text: ({ outcome }) => outcome },
  { title: 'OPERATION', text: ({ operation }) => operation },
  { title: 'OBJECT', text: formatAuditObject },
  { title: 'DETAIL', text: formatAuditDetail },
];

/** Newest first. */
export async function audit(cli: Cli, flags: AuditFlags & GlobalFlags): Promise<number> {
  const client = await cli.services.client();
  const { user, denied, limit = 100, before } = flags;
  const since = flags.since?.(cli.io.now()).from;
  const job =
    flags.job === undefined
      ? undefined
      : isIdRef(flags.job)
        ? flags.job.padStart(6, '0')
        : await client.resolveName(flags.job, 'read');
  const shown: AuditRow[] = [];
  let [left, next, last] = [limit, undefined as string | undefined, undefined as AuditRow | undefined];
  do {
    const page = Math.min(left, maxPage);
    const rows = await client.audit(omitUndefined({ user, since, job, denied, before, limit: page, cursor: next }));
    if (cli.json) cli.printJsonLines(rows);
    else shown.push(...rows);
    [left, next, last] = [left - rows.length, rows.next, rows.at(-1) ?? last];
  } while (next !== undefined && left > 0 && !cli.io.stdout.closed);
  const isFiltered = [user, since, job, denied, before].some((filter) => filter !== undefined);
  if (!cli.json && shown.length === 0) cli.note(`The audit log has no entries ${isFiltered ? 'that match' : 'yet'}.`);
  else if (!cli.json) cli.printAll(fittedTable(columns, shown, ['ROW', 'BY', 'DETAIL'], columnsOf(cli.io.stdout)));
  if (last !== undefined && next !== undefined)
    cli.note(`There are older ones: jobman audit --before ${last.seq}, with the same flags`);
  return exitCode.ok;
}
