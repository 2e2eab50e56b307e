// The identity of a row: names in a cluster are unique only in their namespace.

import type { JobRow } from '../../app/client.ts';
import { pageHref } from '../location.ts';

export function keyOfJob({ id, backend, zone }: Pick<JobRow, 'id' | 'backend' | 'zone'>): string {
  return backend === 'kubernetes' ? `${zone ?? ''}/${id}` : id;
}

/** Null for a job of a cluster. */
export function jobHref({ id, backend }: JobRow): string | null {
  return backend === 'kubernetes' ? null : pageHref(['jobs', id]);
}
