import { exitCode, usageError } from '../../app/errors.ts';
import { formatList, formatTime } from '../../app/format.ts';
import { day, type Instant } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { billingNotes } from '../../app/billing-report.ts';
import { billingCsv, billingLines, billingObjects } from '../render/billing.ts';
import { columnsOf } from '../screen.ts';
import type { BillingFlags } from '../table/flags.ts';

const defaultPeriod = 30 * day;

export async function billing(cli: Cli, flags: BillingFlags & GlobalFlags): Promise<number> {
  if (flags.csv === true && cli.json) throw usageError('--csv and --json exclude each other.');
  const { services, io } = cli;
  const now = io.now();
  const given = flags.by ?? [];
  const answer = await (await services.client()).billing({ by: given, ...periodOf(flags, now) });
  const { by } = answer.report;
  if (cli.json) cli.printJsonLines(billingObjects(answer));
  else if (flags.csv === true) cli.printAll(billingCsv(answer));
  else cli.printAll(billingLines(answer, now, columnsOf(io.stdout)));
  const ignored = given.filter((one) => !by.includes(one));
  if (ignored.length > 0)
    cli.note(
      `An estimate has no services and no SKUs, so the rows are by ${formatList(by)}, not by ${formatList(ignored)}.`,
    );
  for (const note of billingNotes(answer, now)) cli.note(note);
  return exitCode.ok;
}

/** Whole days in UTC. Throws JobmanError for a period that has no time before now. */
function periodOf(flags: BillingFlags, now: Instant): { readonly since: Instant; readonly until: Instant } {
  const until = Math.ceil((flags.until?.(now).until ?? now) / day) * day;
  const since = Math.floor((flags.since?.(now).from ?? Math.min(until, now) - defaultPeriod) / day) * day;
  if (since > now) throw usageError(`--since is in the future: ${formatTime(since, now)}.`);
  if (since >= until)
    throw usageError(`--since (${formatTime(since, now)}) is not before --until (${formatTime(until, now)}).`);
  return { since, until };
}
