// Within: a cluster that is asked beside the record gets so long and no longer.

import { second, type Duration } from '../../core/time.ts';

/** As long as somebody who looks at a list will wait for what they may not even be after. */
export const besideMost: Duration = 2 * second;

/** The result, or the other value if it takes too long. */
export async function within<T, U>(work: Promise<T>, otherwise: U): Promise<T | U> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<U>((resolve) => {
    timer = setTimeout(() => resolve(otherwise), besideMost);
  });
  // It may fail when nobody listens any more.
  work.catch(() => undefined);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
