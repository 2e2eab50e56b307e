// Sources of the page: jobs and capacity answers from the store, which draw the page at once, and the lists of the clouds, which
// may take long. A read that fails keeps what the one before has read.

import { useSignal, type ReadonlySignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { JobActivity } from '../../app/activity.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { nextCheck, type CheckedTpus } from '../../app/known-tpus.ts';
import type { ZoneRow } from '../../app/zones.ts';
import type { Event } from '../../core/model/event.ts';
import { minute, second, type Duration } from '../../core/model/time.ts';
import type { QuotaRow } from '../../reports/quota.ts';
import { follow, type Followed } from '../follow.ts';
import { useChanges, useRead, useRefresh, type ReadState } from '../job/read.ts';
import { serverNow } from '../live.ts';
import { client } from '../session.ts';

export interface StoreState extends Followed {
  /** Null before the first read. */
  readonly jobs: readonly JobActivity[] | null;
  readonly zones: readonly ZoneRow[];
}

/** Log ages do not matter here, so only these events change what the page shows. */
const capacityEvents: ReadonlySet<Event['kind']> = new Set<Event['kind']>([
  'created',
  'command_received',
  'attempt_created',
  'attempt_moved',
  'attempt_started',
  'attempt_ended',
  'allocation_requested',
  'allocation_refused',
  'allocation_seen',
  'allocation_released',
  'allocation_gone',
  'alternative_exhausted',
  'orphan_seen',
  'finished',
  'removed',
]);
const pauseTime: Duration = 2 * second;
/** A viewer gets no events of the jobs of others. */
const refreshTime: Duration = minute;

export function useStore(): ReadonlySignal<StoreState> {
  const state = useSignal<StoreState>({ jobs: null, zones: [], failure: null });
  useEffect(
    () =>
      follow<StoreState>(
        {
          initial: state.peek(),
          async read() {
            const [jobs, zones] = await Promise.all([client.activity(), client.zones({})]);
            return { jobs, zones, failure: null };
          },
          isAffected: (_, change) => change.kind === 'event' && capacityEvents.has(change.event.kind),
          retries: true,
          refreshTime,
          pauseTime,
        },
        (next) => (state.value = next),
      ),
    [],
  );
  return state;
}

export interface CloudState {
  readonly tpus: CheckedTpus;
  /** The limits that were read last. */
  readonly limits: readonly QuotaRow[];
  /** False if no project is known, so that there is no cloud to query. */
  readonly hasProject: boolean;
}

/** Long, because the requests load the APIs of the clouds, and the list of TPUs changes slowly. */
const cloudInterval: Duration = minute;

/** `all`: in all zones of the projects. */
export function useClouds(all: boolean): ReadState<CloudState> {
  const checked = useRef<CheckedTpus>({ list: null, at: serverNow(), message: null });
  const reading = useRead<CloudState>('tpus', all, async () => {
    try {
      const list = await client.tpus(all ? { all } : {});
      checked.current = nextCheck(checked.current, list, serverNow());
      const limits = list.projects.length === 0 ? [] : await client.knownQuota(list.projects);
      return { tpus: checked.current, limits, hasProject: true };
    } catch (error) {
      if (!(error instanceof JobmanError) || error.code !== exitCode.usage) throw error;
      return { tpus: checked.current, limits: [], hasProject: false };
    }
  });
  useRefresh(reading, true, cloudInterval);
  // Its TPU has left the list of the cloud.
  useChanges(reading, (change) => change.kind === 'event' && change.event.kind === 'allocation_gone');
  return reading;
}
