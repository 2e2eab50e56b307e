import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatDate, formatUsd } from '../../app/format.ts';
import { priceTable } from '../../catalogue/prices.ts';
import { suggestZone } from '../../catalogue/zones.ts';
import type { Instant } from '../../core/model/time.ts';
import { priceList, unknownNames, type PriceRow } from '../../reports/price-list.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { PricesFlags } from '../table/flags.ts';

export async function prices(cli: Cli, { zone }: PricesFlags & GlobalFlags, ...names: readonly string[]) {
  const own = await (await cli.services.client()).ownPrices();
  const unknown = unknownNames(own, names).map(
    ({ name, suggestion }) =>
      `${JSON.stringify(name)} is not an accelerator type, and the setting \`prices\` has no price for it.` +
      (suggestion === undefined ? '' : ` Did you mean ${suggestion}?`),
  );
  const [first, ...more] = unknown;
  if (first !== undefined) throw new JobmanError(first, exitCode.notFound, more);

  const now = cli.io.now();
  const rows = priceList(own, { names, zone }, now);
  if (cli.json) {
    cli.printJsonLines(rows);
    return exitCode.ok;
  }
  if (rows.length === 0) {
    const suggestion = zone === undefined ? undefined : suggestZone(zone);
    const hint = suggestion === undefined || suggestion === zone ? '' : ` Did you mean ${suggestion}?`;
    cli.note(`No price is known${zone === undefined ? '' : ` in ${zone}`}.${hint}`);
    return exitCode.ok;
  }
  cli.printAll(priceLines(rows, columnsOf(cli.io.stdout), now));
  if (rows.some(({ source }) => source === 'catalogue'))
    cli.note(`List prices of ${priceTable.date} are estimates. Source: ${priceTable.source}.`);
  return exitCode.ok;
}

function priceLines(rows: readonly PriceRow[], terminal: number | null, now: Instant): readonly string[] {
  const columns: readonly Column<PriceRow>[] = [
    { title: 'ACCELERATOR', text: formatSubject },
    { title: 'LOCATION', text: ({ zone, region }) => zone ?? region ?? 'any' },
    { title: 'PRICING', text: ({ pricing }) => pricing ?? 'any' },
    { title: 'PER CHIP-HOUR', side: 'right', text: ({ pricePerChipHourUsd }) => formatAmount(pricePerChipHourUsd, 4) },
    { title: 'PER HOUR', side: 'right', text: ({ pricePerHourUsd }) => formatAmount(pricePerHourUsd, 2) },
    { title: 'SOURCE', text: (row) => formatSource(row, now) },
  ];
  return fittedTable(columns, rows, ['SOURCE', 'PER HOUR'], terminal);
}

function formatSubject({ accelerator, slice, flavor, host }: PriceRow): string {
  if (accelerator === null) return flavor === null ? `machine ${host ?? ''}` : `flavor ${flavor}`;
  return slice ? `${accelerator} slice` : accelerator;
}

/** Chip-hours cost fractions of a cent. */
function formatAmount(usd: number | null, digits: 2 | 4): string {
  if (usd === null) return '-';
  return digits === 2 ? formatUsd(usd) : `$${usd.toFixed(digits)}`;
}

function formatSource({ source, pricesOf, sinceAt }: PriceRow, now: Instant): string {
  if (source === 'catalogue') return `list price of ${pricesOf}`;
  if (sinceAt === null) return 'your settings';
  return `your settings, ${sinceAt > now ? 'from' : 'since'} ${formatDate(sinceAt, now)}`;
}
