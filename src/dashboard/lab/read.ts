// Reads of the page again after events of jobs. The bookings have no events, so they are read at an interval too.

import { useEffect, useRef } from 'preact/hooks';
import { second, type Duration } from '../../core/model/time.ts';
import { useRead, useRefresh, type ReadState } from '../job/read.ts';
import { onChange } from '../live.ts';

/** Many events in a short time are one read. */
const batchTime: Duration = 2 * second;
const refreshTime: Duration = 10 * second;

/** As `useRead`, and again after events and at an interval, while the page is visible. */
export function useLiveRead<Value>(subject: string, read: () => Promise<Value>): ReadState<Value> {
  const state = useRead(subject, null, read);
  useRefresh(state, true, refreshTime);
  const newest = useRef(state);
  newest.current = state;
  useEffect(() => {
    let isDue = false;
    const wanted = (): void => void (isDue = true);
    const leave = onChange(({ kind }) => {
      if (kind === 'event') wanted();
    }, wanted);
    // A read in progress may be too early for the event.
    const batches = setInterval(() => {
      if (!isDue || newest.current.isReading || document.visibilityState !== 'visible') return;
      isDue = false;
      newest.current.again();
    }, batchTime);
    return () => {
      clearInterval(batches);
      leave();
    };
  }, []);
  return state;
}
