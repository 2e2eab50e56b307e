// Quota, storage and usage.

import { useSignal } from '@preact/signals';
import { formatList } from '../../app/format.ts';
import {
  formatLimitSource,
  formatUncounted,
  formatUnreadable,
  noQuotaSentences,
  quotaColumns,
  reclaimableSentences,
  shownQuotas,
} from '../../app/quota-report.ts';
import type { ReportPeriod } from '../../app/report-period.ts';
import type { StorageReport as Report } from '../../app/storage.ts';
import {
  bucketColumns,
  bucketRows,
  formatCountProgress,
  formatStorageProblem,
  storageNotes,
} from '../../app/storage-report.ts';
import { formatUnchecked, formatUnread } from '../../app/tpu-phrases.ts';
import { usageColumns } from '../../app/usage-report.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { now } from '../clock.ts';
import { Empty, Failure } from '../parts/messages.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { client } from '../session.ts';
import { Notes, ReportTable } from './report-table.tsx';

/** Projects and zones that could not be read, each as a sentence. */
function Missing({ sentences }: { readonly sentences: readonly string[] }) {
  return sentences.length === 0 ? null : <Failure lines={sentences} retry={null} />;
}

export function QuotaReport() {
  const reading = useReading(() => client.quota({}), []);
  return (
    <Shown reading={reading}>
      {(report) => {
        const rows = shownQuotas(report.rows, undefined);
        const missing = [
          ...report.unread.map((one) => `${formatUnread(one)}.`),
          ...report.unchecked.map((one) => `${formatUnchecked(one)}.`),
          ...report.unreadable.map((one) => `${formatUnreadable(one)}.`),
        ];
        return (
          <>
            <Missing sentences={missing} />
            {rows.length === 0 ? (
              <Empty command="jobman quota">{noQuotaSentences(report, undefined).join(' ')}</Empty>
            ) : (
              <ReportTable label="Quota" columns={quotaColumns(rows)} rows={rows} file="quota" />
            )}
            <Notes
              notes={[formatLimitSource(report), formatUncounted(report), ...reclaimableSentences(rows)].flatMap(
                (note) => note ?? [],
              )}
            />
          </>
        );
      }}
    </Shown>
  );
}

export function StorageReport() {
  const progress = useSignal<string | null>(null);
  const reading = useReading(async () => {
    let last: Report | null = null;
    for await (const next of client.storage({ exact: false })) {
      last = next;
      progress.value = formatCountProgress(next.counted, 'bucket');
    }
    progress.value = null;
    return last;
  }, []);
  return (
    <>
      {progress.value !== null && <p class="quiet note">{progress.value}</p>}
      <Shown reading={reading}>
        {(report) =>
          report === null ? null : (
            <>
              <Missing sentences={report.problems.map(formatStorageProblem)} />
              {report.rows.length === 0 ? (
                <Empty command="jobman storage">No buckets in {formatList(report.projects)}.</Empty>
              ) : (
                <ReportTable
                  label="Storage"
                  columns={bucketColumns(report, now.peek())}
                  rows={bucketRows(report)}
                  isTotal={(row) => !('bucket' in row)}
                  file="storage"
                />
              )}
              <Notes notes={storageNotes(report.rows, false)} />
            </>
          )
        }
      </Shown>
    </>
  );
}

/** More rows would be slow to draw. */
const maxRows = 100;

export function UsageReport({ period: { since, until } }: { readonly period: ReportPeriod }) {
  const reading = useReading(
    () => client.usage({ since, ...omitUndefined({ until }), limit: maxRows }),
    [since, until],
  );
  return (
    <Shown reading={reading}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty command="jobman cost">No usage in this period.</Empty>
        ) : (
          <>
            <p class="title">Each use of capacity that overlaps the period, in full.</p>
            <ReportTable label="Usage" columns={usageColumns(now.peek())} rows={rows} file="usage" />
            {rows.next !== undefined && (
              <Notes notes={[`These are the first ${maxRows} uses. A shorter period shows the others.`]} />
            )}
          </>
        )
      }
    </Shown>
  );
}
