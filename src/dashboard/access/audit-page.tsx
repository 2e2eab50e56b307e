// The audit log: changes and refused requests, newest first. Filters are in the address.

import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { AuditRow } from '../../app/audit.ts';
import { formatAuditDetail, formatAuditMeans, formatAuditObject } from '../../app/audit-text.ts';
import { escapeLine, formatTimestamp } from '../../app/format.ts';
import { quote } from '../../catalogue/shell.ts';
import { address, changeQuery } from '../location.ts';
import { PageCommand } from '../parts/command.tsx';
import { Empty, Failure, FilteredOut } from '../parts/messages.tsx';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { client, errorLines } from '../session.ts';

const pageSize = 100;

export function AuditPage() {
  const { query } = address.value;
  const user = query.get('user') ?? '';
  const isDenied = query.get('denied') === 'yes';
  const filter = { ...(user === '' ? {} : { user }), ...(isDenied ? { denied: true } : {}) };
  const newest = useReading(() => client.audit({ ...filter, limit: pageSize }), [user, isDenied]);
  const older = useSignal<readonly AuditRow[]>([]);
  const next = useSignal<string | undefined>(undefined);
  const failure = useSignal<readonly string[] | null>(null);
  const isReading = useSignal(false);
  useEffect(() => {
    older.value = [];
    next.value = newest.value?.next;
  }, [newest.value]);
  const readOlder = async (): Promise<void> => {
    if (isReading.peek()) return;
    isReading.value = true;
    failure.value = null;
    const cursor = next.value;
    try {
      const page = await client.audit({ ...filter, limit: pageSize, ...(cursor === undefined ? {} : { cursor }) });
      // With another filter, these rows do not belong to the list.
      if (next.peek() === cursor) {
        older.value = [...older.value, ...page];
        next.value = page.next;
      }
    } catch (error) {
      failure.value = errorLines(error);
    }
    isReading.value = false;
  };
  const flags = [...(user === '' ? [] : [`--user ${quote(user)}`]), ...(isDenied ? ['--denied'] : [])];
  const isFiltered = flags.length > 0;
  return (
    <section class="page">
      <div class="bar">
        <h1>Audit log</h1>
        <UserField user={user} />
        <label class="switch">
          <input
            type="checkbox"
            checked={isDenied}
            onChange={(event) => changeQuery({ denied: event.currentTarget.checked ? 'yes' : null })}
          />
          Only refused requests
        </label>
        <PageCommand text={['jobman audit', ...flags].join(' ')} />
      </div>
      <Shown reading={newest}>
        {(rows) =>
          rows.length > 0 ? (
            <PlainTable
              label="Audit log"
              rows={[...rows, ...older.value]}
              columns={columns}
              keyOf={({ seq }) => String(seq)}
            />
          ) : isFiltered ? (
            <FilteredOut onClear={() => changeQuery({ user: null, denied: null })}>
              No request in the audit log matches the filters.
            </FilteredOut>
          ) : (
            <Empty>No request has been recorded yet. Each change and each refused request has a row here.</Empty>
          )
        }
      </Shown>
      {failure.value !== null && <Failure lines={failure.value} retry={null} />}
      {next.value !== undefined && <button onClick={() => void readOlder()}>Show older requests</button>}
    </section>
  );
}

/** The text becomes the filter when the focus leaves the field. */
function UserField({ user }: { readonly user: string }) {
  const typed = useSignal(user);
  const applied = useRef(user);
  useEffect(() => {
    // At first, a person may have typed before this.
    if (user === applied.current) return;
    applied.current = user;
    typed.value = user;
  }, [user]);
  const apply = (): void => changeQuery({ user: typed.value.trim() });
  return (
    <form
      class="line"
      onSubmit={(event) => {
        event.preventDefault();
        apply();
      }}
    >
      <label class="switch">
        User
        <input value={typed.value} onInput={(event) => (typed.value = event.currentTarget.value)} onBlur={apply} />
      </label>
    </form>
  );
}

const columns: readonly PlainColumn<AuditRow>[] = [
  { title: 'Time', width: '14rem', cell: ({ at }) => formatTimestamp(at) },
  { title: 'User', cell: ({ actor }) => escapeLine(actor) },
  { title: 'By', cell: (row) => escapeLine(formatAuditMeans(row)) },
  { title: 'Outcome', width: '6rem', cell: ({ outcome }) => outcome, cellClass: ({ outcome }) => `outcome-${outcome}` },
  { title: 'Operation', cell: ({ operation }) => operation },
  { title: 'Object', cell: (row) => escapeLine(formatAuditObject(row)) },
  { title: 'Detail', width: '25%', cell: (row) => escapeLine(formatAuditDetail(row)) },
];
