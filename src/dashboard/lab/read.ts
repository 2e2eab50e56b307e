// Reads of the page again after events of jobs. The bookings have no events, so they are read at an interval too.

import { second, type Duration } from '../../core/model/time.ts';
import { useChanges, useRead, useRefresh, type ReadState } from '../job/read.ts';

const refreshTime: Duration = 10 * second;

/** As `useRead`, and again after events and at an interval, while the page is visible. */
export function useLiveRead<Value>(subject: string, read: () => Promise<Value>): ReadState<Value> {
  const state = useRead(subject, null, read);
  useRefresh(state, true, refreshTime);
  useChanges(state, ({ kind }) => kind === 'event');
  return state;
}
