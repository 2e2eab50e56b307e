import { readBilling } from '../../app/billing.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { formatList, formatTime } from '../../app/format.ts';
import { day, type Instant } from '../../core/model/time.ts';
import type { BillingGrouping } from '../../reports/billing.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { billingCsv, billingLines, billingNotes, billingObjects } from '../render/billing.ts';
import { columnsOf } from '../screen.ts';
import type { BillingFlags } from '../table/flags.ts';

const defaultPeriod = 30 * day;

export async function billing(cli: Cli, flags: BillingFlags & GlobalFlags): Promise<number> {
  if (flags.csv === true && cli.json) throw usageError('--csv and --json exclude each other.');
  const { services, io } = cli;
  const now = io.now();
  const period = periodOf(flags, now);
  const billing = await services.billingExport();
  const by = groupingsOf(flags.by ?? [], billing !== null);
  const [client, installation] = await Promise.all([services.client(), services.installationId()]);
  const answer = await readBilling({ billing, client, installation, now }, { by, ...period });
  if (cli.json) cli.printJsonLines(billingObjects(answer));
  else if (flags.csv === true) cli.printAll(billingCsv(answer));
  else cli.printAll(billingLines(answer, now, columnsOf(io.stdout)));
  const ignored = (flags.by ?? []).filter((one) => !by.includes(one));
  if (ignored.length > 0)
    cli.note(
      `An estimate has no services and no SKUs, so the rows are by ${formatList(by)}, not by ${formatList(ignored)}.`,
    );
  for (const note of billingNotes(answer, now)) cli.note(note);
  return exitCode.ok;
}

/** An estimate knows no services and no SKUs. */
function groupingsOf(given: readonly BillingGrouping[], hasExport: boolean): readonly BillingGrouping[] {
  const by = [...new Set(given)].filter((one) => hasExport || (one !== 'service' && one !== 'sku'));
  if (by.length > 0) return by;
  return given.length > 0 ? ['job'] : ['day'];
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
