// The report of `billing`: the export that the setting names, compared with the usage ledger.

import { billingReport, type BillingGrouping, type BillingReport } from '../reports/billing.ts';
import type { Instant } from '../core/model/time.ts';
import type { BillingExport, BillingExportData, BillingPeriod } from './billing-export.ts';
import type { Store } from './ports.ts';
import { isAllowedProject } from './require-permission.ts';
import type { TpuSettings } from './tpus.ts';
import type { UsageRow } from '../reports/usage.ts';

export interface BillingRequest extends BillingPeriod {
  /** Empty: the default. An estimate knows no services and no SKUs, so these are left out without an export. */
  readonly by: readonly BillingGrouping[];
}

/** The export that was read. */
interface BillingSourceView extends Omit<BillingExportData, 'rows'> {
  /** `project.dataset.table`. */
  readonly table: string;
}

export interface BillingAnswer {
  readonly report: BillingReport;
  /** Null without an export: the report has estimates only. */
  readonly source: BillingSourceView | null;
  /** The kinds of usage in this period that Google's TPU estimates leave out. */
  readonly leftOut: readonly UsageKind[];
}

/** Usage that is not a TPU at Google. */
type UsageKind = 'simulated' | 'hosts' | 'kubernetes';

function kindsLeftOut(usage: readonly UsageRow[]): readonly UsageKind[] {
  const kinds = usage.flatMap(({ source, simulated }) =>
    source === 'tpu' ? (simulated ? ['simulated' as const] : []) : [source],
  );
  return [...new Set(kinds)];
}

function groupingsOf(given: readonly BillingGrouping[], hasExport: boolean): readonly BillingGrouping[] {
  const by = [...new Set(given)].filter((one) => hasExport || (one !== 'service' && one !== 'sku'));
  if (by.length > 0) return by;
  return given.length > 0 ? ['job'] : ['day'];
}

/**
 * `since` and `until` are midnights in UTC. A user with a limit of projects gets only the charges of these projects.
 * Throws what `BillingExport.read` throws.
 */
export async function readBilling(
  parts: {
    readonly billing: BillingExport | null;
    readonly store: Pick<Store, 'usage'>;
    readonly installation: string | null;
    readonly now: Instant;
    readonly settings: Pick<TpuSettings, 'allowedProjects'>;
  },
  { by, since, until }: BillingRequest,
): Promise<BillingAnswer> {
  const { billing, store, installation, now } = parts;
  const isVisible = (project: string | null): boolean =>
    isAllowedProject(parts.settings.allowedProjects ?? null, project ?? '');
  const ledger = await store.usage({ since, until });
  const usage = ledger.filter(({ source, project }) => source !== 'tpu' || isVisible(project));
  const all = (await billing?.read({ since, until })) ?? null;
  const data = all && { ...all, rows: all.rows.filter(({ project }) => isVisible(project)) };
  const leftOut = kindsLeftOut(usage);
  const report = billingReport({
    by: groupingsOf(by, billing !== null),
    since,
    until,
    exported: data,
    usage,
    installation,
    now,
  });
  if (billing === null || data === null) return { report, source: null, leftOut };
  const { rows: _rows, ...about } = data;
  return { report, source: { table: billing.table, ...about }, leftOut };
}
