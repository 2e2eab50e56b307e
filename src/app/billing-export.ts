// BillingExport: the port to the export of billed costs. src/google/billing-export.ts implements it over BigQuery.

import type { Instant } from '../core/model/time.ts';
import type { BilledRow } from '../reports/billing.ts';

/** From `since` on, and before `until`. */
export interface BillingPeriod {
  readonly since: Instant;
  readonly until: Instant;
}

export interface BillingExportData {
  /** Aggregated: one row for each day, service, SKU, project, job and currency. */
  readonly rows: readonly BilledRow[];
  /** Rows of an unexpected form; their amounts are not included. */
  readonly unreadableRows: number;
  /** Start of the first usage at or after `since` in the export; null if it has none. */
  readonly firstUsageAt: Instant | null;
  /** Time of the newest export of usage at or after `since`; null if the export has none. */
  readonly exportedAt: Instant | null;
  /** Bytes that the queries read. */
  readonly bytesRead: number;
  /** Bytes that Google charges for the queries; 0 for an answer from BigQuery's cache. */
  readonly bytesCharged: number;
}

export interface BillingExport {
  /** `project.dataset.table`. */
  readonly table: string;
  /** Throws JobmanError: 3 for an absent table, 1 for a missing permission or a refused query, 5 if BigQuery is unreachable. */
  read(period: BillingPeriod): Promise<BillingExportData>;
}
