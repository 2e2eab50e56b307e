import { escapeLine } from '../../app/format.ts';
import type { JobHistory } from '../../app/job-source.ts';

/** `000042 vit (ada)`; a job in a cluster has no id but its name. */
export function formatJobName({ id, name, owner }: Pick<JobHistory, 'id' | 'name' | 'owner'>): string {
  return escapeLine(`${id === name ? name : `${id} ${name}`} (${owner ?? 'made by another tool'})`);
}
