// Lease: which controller may commit. Its epoch grows with each new holder, and every commit names the epoch, so that a controller which
// has lost the lease without knowing it cannot write.

import type { LeaseState, Pause } from '../app/ports.ts';
import { minute, type Duration, type Instant } from '../core/time.ts';
import { sql, type Database } from './sql.ts';

/** A running controller renews much more often. */
const pauseLeast: Duration = minute;
/** Two pauses with less time between them count as one: what failed before the first may not be done yet. */
const betweenPauses: Duration = 10 * minute;

/** The lease while it is held, else undefined. A lease that has run out is held until another controller takes it. */
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
  const pause = await pauseAt(db, wanted.now);
  const { rows } = await sql<{ epoch: number }>`
    update lease
    set holder = ${wanted.holder}, epoch = epoch + ${ours ? 0 : 1}, version = ${wanted.version},
        until = ${wanted.now + wanted.ttl}, renewed_at = ${wanted.now},
        paused_from = ${pause?.from ?? null}, paused_until = ${pause?.until ?? null}
    where only = 1 returning epoch`.execute(db);
  const epoch = rows[0]?.epoch;
  if (epoch === undefined) throw new Error('the record has no row for the lease, which its first migration makes');
  return {
    taken: true,
    lease: {
      holder: wanted.holder,
      epoch,
      version: wanted.version,
      until: wanted.now + wanted.ttl,
      ...(pause !== undefined && { pause }),
    },
  };
}

/** The newest pause for a lease that is taken or renewed now; a time of a clock that was ahead is brought back to now. */
async function pauseAt(db: Database, now: Instant): Promise<Pause | undefined> {
  const { rows } = await sql<{ renewedAt: number | null; from: number | null; until: number | null }>`
    select renewed_at as renewedAt, paused_from as "from", paused_until as until from lease where only = 1`.execute(db);
  const { renewedAt = null, from = null, until = null } = rows[0] ?? {};
  const last = from === null || until === null ? undefined : { from: Math.min(from, now), until: Math.min(until, now) };
  if (renewedAt === null || now - renewedAt <= pauseLeast) return last;
  const isSame = last !== undefined && renewedAt - last.until < betweenPauses;
  return { from: isSame ? last.from : renewedAt, until: now };
}

/** Gives it back; does nothing when another controller holds it. */
export async function dropLease(db: Database, holder: string): Promise<void> {
  await sql`update lease set holder = null, until = 0 where only = 1 and holder = ${holder}`.execute(db);
}
