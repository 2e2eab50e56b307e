// Lease: which controller may commit. Its epoch grows whenever it changes hands, and every commit of a controller names
// the epoch that it was given, so that one which has lost the lease without knowing it cannot write.

import { sql, type Database } from './sql.ts';
import type { LeaseState } from '../app/ports.ts';
import type { Duration, Instant } from '../core/time.ts';

/** Who holds it; undefined when nobody does. A lease that has run out is held until somebody takes it. */
export async function readLease(db: Database): Promise<LeaseState | undefined> {
  const { rows } = await sql<{ holder: string | null; epoch: number; version: string; until: number }>`
    select holder, epoch, version, until from lease where only = 1`.execute(db);
  const row = rows[0];
  return row === undefined || row.holder === null ? undefined : { ...row, holder: row.holder };
}

/** Takes it when it is free, has run out, is ours already, or its holder is certainly dead; else answers who holds it. */
export async function takeLease(
  db: Database,
  wanted: {
    readonly holder: string;
    readonly version: string;
    readonly now: Instant;
    readonly ttl: Duration;
    readonly certain: boolean;
  },
): Promise<{ readonly taken: boolean; readonly lease: LeaseState }> {
  const held = await readLease(db);
  const ours = held?.holder === wanted.holder;
  if (held !== undefined && !ours && held.until > wanted.now && !wanted.certain) return { taken: false, lease: held };
  const { rows } = await sql<{ epoch: number }>`
    update lease
    set holder = ${wanted.holder}, epoch = epoch + ${ours ? 0 : 1}, version = ${wanted.version},
        until = ${wanted.now + wanted.ttl}
    where only = 1 returning epoch`.execute(db);
  const epoch = rows[0]?.epoch;
  if (epoch === undefined) throw new Error('the record has no row for the lease, which its first migration makes');
  return {
    taken: true,
    lease: { holder: wanted.holder, epoch, version: wanted.version, until: wanted.now + wanted.ttl },
  };
}

/** Gives it back; nothing happens when somebody else holds it. */
export async function dropLease(db: Database, holder: string): Promise<void> {
  await sql`update lease set holder = null, until = 0 where only = 1 and holder = ${holder}`.execute(db);
}
