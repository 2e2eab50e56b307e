// A row as `--json` prints it: everything that is known, whatever columns are shown.

import { moment } from '../../../app/moment.ts';
import type { CheckRow } from '../../../lab/check.ts';

export function rowJson(row: CheckRow): object {
  const { status, since, ...rest } = row;
  const { kind, ...more } = status;
  const hangs = 'hangsAt' in more && { hangsAt: more.hangsAt === null ? null : moment(more.hangsAt) };
  return { ...rest, status: kind, ...more, ...hangs, since: moment(since) };
}
