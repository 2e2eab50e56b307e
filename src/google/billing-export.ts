// The billing export over BigQuery. Fields of both usage tables, standard and detailed:
// https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage
// https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/detailed-usage
//
// - cost: before credits, in `currency`; credits[].amount: negative; both together are the net cost
// - currency_conversion_rate: units of `currency` for one US dollar
// - usage_start_time: start of the hour of the usage; export_time: when Google wrote the row
// - labels: those of the resource; for a TPU the labels of its node
// - _PARTITIONTIME: the day of the export, which is never before the day of the usage

import type { BigQuery, Job, Query } from '@google-cloud/bigquery';
import type { BillingExport, BillingExportData, BillingPeriod } from '../app/billing-export.ts';
import { withTimeout } from '../app/concurrency.ts';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { formatBytes } from '../app/format.ts';
import { day, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { BilledRow } from '../reports/billing.ts';

export interface BillingSource {
  /** `project.dataset.table`; the settings have checked its form. */
  readonly table: string;
  /** The project that runs the queries and pays for them. */
  readonly project: string;
  readonly maxQueryBytes: number;
  /** The server's address, without a path. */
  readonly endpoint: string;
  readonly login: { headers(): Promise<Readonly<Record<string, string>>> };
  /** The longest pause before a repetition. */
  readonly maxRetryDelay?: Duration;
}

/** For both queries together. BigQuery answers such queries within seconds. */
const answerTimeout: Duration = 3 * minute;
/** Requests after a first one that BigQuery could not serve (503, rateLimitExceeded) or that got no answer. */
const retries = 3;
const defaultRetryDelay: Duration = 3 * second;

/** Connects with the first `read`. */
export function createBillingExport(source: BillingSource): BillingExport {
  const { table } = source;

  async function read(period: BillingPeriod): Promise<BillingExportData> {
    try {
      const client = await openClient(source);
      const answers = (isPartitioned: boolean) =>
        Promise.all([
          runQuery(client, source, usageQuery(table, isPartitioned), period),
          runQuery(client, source, coverageQuery(table, isPartitioned), period),
        ]);
      const work = answers(true).catch((error: unknown) => {
        // A view of the export, or a copy of it, has no such column.
        if (/_PARTITIONTIME/.test(messageOf(error))) return answers(false);
        throw error;
      });
      const [usage, coverage] = await withTimeout(answerTimeout, work, () => {
        throw new Error(`no answer within ${answerTimeout / minute} minutes`);
      });
      const [covered] = coverage.rows;
      const rows = usage.rows.flatMap((cells) => parseRow(cells) ?? []);
      if (rows.length === 0 && usage.rows.length > 0) throw new Error('the answer is not from BigQuery');
      return {
        rows,
        unreadableRows: usage.rows.length - rows.length,
        firstUsageAt: instantOrNull(covered?.['firstUsage']),
        exportedAt: instantOrNull(covered?.['exported']),
        bytesRead: usage.bytesRead + coverage.bytesRead,
        bytesCharged: usage.bytesCharged + coverage.bytesCharged,
      };
    } catch (error) {
      throw billingError(error, source);
    }
  }

  return { table, read };
}

// ------------------------------------------------------------------------------------------ queries

/** Late exports and corrections are in later partitions, so there is no upper limit. */
const partitionFilter = 'AND (_PARTITIONTIME >= @partition OR _PARTITIONTIME IS NULL)';

/**
 * NUMERIC, because sums of FLOAT64 depend on the order of the rows. The names of the first part differ from the columns
 * of the table, so that GROUP BY is not ambiguous.
 */
function usageQuery(table: string, isPartitioned: boolean): string {
  return `WITH billed AS (
  SELECT
    FORMAT_TIMESTAMP('%F', usage_start_time, 'UTC') AS usageDay,
    service.description AS serviceName,
    sku.description AS skuName,
    project.id AS projectId,
    (SELECT MAX(value) FROM UNNEST(labels) WHERE key = 'jobman-installation') AS installation,
    (SELECT MAX(value) FROM UNNEST(labels) WHERE key = 'jobman-job') AS job,
    currency AS currencyCode,
    IF(currency = 'USD', 1, currency_conversion_rate) AS rate,
    CAST(cost AS NUMERIC) AS gross,
    IFNULL((SELECT SUM(CAST(amount AS NUMERIC)) FROM UNNEST(credits)), 0) AS credit
  FROM \`${table}\`
  WHERE usage_start_time >= @since AND usage_start_time < @until ${isPartitioned ? partitionFilter : ''}
)
SELECT
  usageDay, serviceName, skuName, projectId, installation, job, currencyCode,
  CAST(SUM(gross) AS FLOAT64) AS cost,
  CAST(SUM(credit) AS FLOAT64) AS credits,
  IF(COUNTIF(rate IS NULL) > 0, NULL, SUM(SAFE_DIVIDE(CAST(gross + credit AS FLOAT64), rate))) AS netUsd
FROM billed
GROUP BY usageDay, serviceName, skuName, projectId, installation, job, currencyCode
ORDER BY usageDay, serviceName, skuName`;
}

function coverageQuery(table: string, isPartitioned: boolean): string {
  return `SELECT UNIX_MILLIS(MIN(usage_start_time)) AS firstUsage, UNIX_MILLIS(MAX(export_time)) AS exported
FROM \`${table}\`
WHERE usage_start_time >= @since ${isPartitioned ? partitionFilter : ''}`;
}

type Cells = Readonly<Record<string, unknown>>;

async function runQuery(
  client: BigQuery,
  { maxQueryBytes }: BillingSource,
  query: string,
  { since, until }: BillingPeriod,
): Promise<{ readonly rows: readonly Cells[]; readonly bytesRead: number; readonly bytesCharged: number }> {
  const times = { since, until, partition: Math.floor(since / day) * day - day };
  const params = Object.entries(times).filter(([name]) => query.includes(`@${name}`));
  const request: Query = {
    query,
    params: Object.fromEntries(params.map(([name, at]) => [name, client.timestamp(new Date(at))])),
    maximumBytesBilled: String(maxQueryBytes),
    jobPrefix: 'jobman_billing_',
  };
  const [job] = await client.createQueryJob(request);
  const [rows] = await job.getQueryResults();
  return { rows: rows as readonly Cells[], ...(await bytesOf(job)) };
}

/** https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#JobStatistics2 */
async function bytesOf(job: Job): Promise<{ readonly bytesRead: number; readonly bytesCharged: number }> {
  const [metadata] = (await job.getMetadata()) as [
    { readonly statistics?: { readonly query?: { totalBytesProcessed?: string; totalBytesBilled?: string } } },
    ...unknown[],
  ];
  const { totalBytesProcessed = '0', totalBytesBilled = '0' } = metadata.statistics?.query ?? {};
  return { bytesRead: Number(totalBytesProcessed), bytesCharged: Number(totalBytesBilled) };
}

/** Undefined for a row of another form. */
function parseRow(cells: Cells): BilledRow | undefined {
  const { usageDay, currencyCode, cost, credits } = cells;
  if (typeof usageDay !== 'string' || typeof currencyCode !== 'string' || !isAmount(cost) || !isAmount(credits))
    return undefined;
  return {
    day: usageDay,
    service: textOrNull(cells['serviceName']),
    sku: textOrNull(cells['skuName']),
    project: textOrNull(cells['projectId']),
    installation: textOrNull(cells['installation']),
    job: textOrNull(cells['job']),
    currency: currencyCode,
    cost,
    credits,
    netUsd: isAmount(cells['netUsd']) ? cells['netUsd'] : null,
  };
}

/** No bill has such an amount, and a sum of larger numbers may be infinite. */
function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) < 1e15;
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/** Null also for a number that is not a time of a calendar. */
function instantOrNull(value: unknown): Instant | null {
  return typeof value === 'number' && !Number.isNaN(new Date(value).getTime()) ? value : null;
}

// ------------------------------------------------------------------------------------------ client

async function openClient({
  project,
  endpoint,
  login,
  maxRetryDelay = defaultRetryDelay,
}: BillingSource): Promise<BigQuery> {
  const [{ BigQuery: Client }, { PassThroughClient }] = await Promise.all([
    import('@google-cloud/bigquery'),
    import('google-auth-library'),
  ]);
  // The library asks for the headers before each request; the login keeps and renews the token.
  const auth = new PassThroughClient();
  auth.getRequestHeaders = async () => new Headers(await login.headers());
  const client = new Client({
    projectId: project,
    apiEndpoint: endpoint,
    authClient: auth,
    retryOptions: {
      autoRetry: true,
      maxRetries: retries,
      retryableErrorFn: isTemporary,
      maxRetryDelay: maxRetryDelay / second,
    },
  });
  // The library would send the login to the address in BIGQUERY_EMULATOR_HOST.
  client.baseUrl = `${endpoint}/bigquery/v2`;
  return client;
}

// ------------------------------------------------------------------------------------------ errors

/** https://cloud.google.com/bigquery/docs/error-messages */
interface ServiceError {
  readonly code?: unknown;
  readonly errors?: readonly ErrorProto[];
  readonly response?: { readonly body?: { readonly error?: { readonly errors?: readonly ErrorProto[] } } };
}

interface ErrorProto {
  readonly reason?: string;
  readonly message?: string;
}

/** The library itself sees the reason of an error only after it has decided not to repeat the request. */
function isTemporary(error: unknown): boolean {
  const { code, response } = error as ServiceError;
  const reason = response?.body?.error?.errors?.[0]?.reason ?? '';
  return [429, 500, 502, 503, 504].includes(Number(code)) || /^(?:rateLimitExceeded|backendError)$/.test(reason);
}

function billingError(error: unknown, source: BillingSource): JobmanError {
  if (error instanceof JobmanError) return error;
  const { table, project, maxQueryBytes } = source;
  const { code, errors = [] } = error as ServiceError;
  const reason = errors[0]?.reason;
  const message = (errors[0]?.message ?? messageOf(error)).split('\n')[0] ?? '';
  const [tableProject = '', dataset = ''] = splitTable(table);
  // A query whose job has disappeared says nothing about the table.
  if ((reason === 'notFound' || code === 404) && !message.startsWith('Not found: Job'))
    return new JobmanError(`BigQuery has no billing export ${table}.`, exitCode.notFound, [
      message,
      'Set billing.exportTable to the full name of the table (project.dataset.table), as in the Google Cloud console.',
      'Google creates the table some hours after the export was switched on; docs/costs.md says how.',
    ]);
  if (reason === 'accessNotConfigured')
    return new JobmanError(`The BigQuery API is off in project ${project}.`, exitCode.failed, [
      message,
      `gcloud services enable bigquery.googleapis.com --project=${project}`,
    ]);
  if (reason === 'bytesBilledLimitExceeded')
    return new JobmanError(
      `The query would read more than ${formatBytes(maxQueryBytes)} of ${table}. BigQuery refused it and charged nothing.`,
      exitCode.failed,
      [message, 'Choose a shorter period, or raise the setting billing.maxQueryBytes.'],
    );
  if (code === 401) return new JobmanError('BigQuery did not accept the login.', exitCode.unreachable, [message]);
  if (reason === 'accessDenied' || code === 403) {
    const isProject = /bigquery\.jobs\.create/.test(message) || /^Access Denied: Project /i.test(message);
    return new JobmanError(
      isProject
        ? `You may not run queries in project ${project}: the permission bigquery.jobs.create is missing.`
        : `You may not read ${table}: the permission bigquery.tables.getData is missing.`,
      exitCode.failed,
      [
        message,
        isProject
          ? `Ask for the role BigQuery Job User (roles/bigquery.jobUser) in ${project}, or set billing.queryProject to a project in which you have it.`
          : `Ask for the role BigQuery Data Viewer (roles/bigquery.dataViewer) on the dataset ${dataset} of project ${tableProject}.`,
      ],
    );
  }
  if (reason === 'invalidQuery' || reason === 'invalid')
    return new JobmanError(`${table} is not a billing export with usage costs.`, exitCode.failed, [
      message,
      'Set billing.exportTable to the table of standard or detailed usage costs (gcp_billing_export_v1_... or gcp_billing_export_resource_v1_...).',
    ]);
  const status = typeof code === 'number' ? ` (${code})` : '';
  return new JobmanError(`BigQuery does not answer${status}.`, exitCode.unreachable, [message]);
}

/** The project may contain a dot (`example.com:lab`). */
function splitTable(table: string): readonly string[] {
  const [, project = '', dataset = ''] = /^(.+)\.([^.]+)\.[^.]+$/.exec(table) ?? [];
  return [project, dataset];
}

/** The project of a table `project.dataset.table`. */
export function projectOfTable(table: string): string {
  return splitTable(table)[0] ?? '';
}
