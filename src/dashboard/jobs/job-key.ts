// The identity of a row: names in a cluster are unique only in their namespace.

import { splitZone } from '../../app/cluster/job-view.ts';
import type { JobRow } from '../../app/client.ts';
import { pageHref } from '../location.ts';

export function keyOfJob({ id, backend, zone }: Pick<JobRow, 'id' | 'backend' | 'zone'>): string {
  return backend === 'kubernetes' ? `${zone ?? ''}/${id}` : id;
}

export function jobHref({ id, backend, zone }: Pick<JobRow, 'id' | 'backend' | 'zone'>): string {
  return backend === 'kubernetes' ? pageHref(['jobs', id, 'cluster'], { ...splitZone(zone) }) : pageHref(['jobs', id]);
}
