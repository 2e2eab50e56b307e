// Cluster mirror: keeps logs and history of the jobs that were submitted to clusters from this record. It only looks. A
// cluster runs its jobs itself and throws away what they printed; what is written here answers when it has.
//
// Where nothing of ours is left, nothing is asked. Where something is, one watch tells of the Jobs; a second one of their pods
// for as long as a job is open or a log is not copied to its end. Whatever a watch tells, all that is known of the job is
// then written down anew under keys of its own, so telling twice, or again after a restart, changes nothing. A log is
// gone on with behind the end of its own copy.

import type { Cluster, ClusterJob } from '../app/cluster/cluster.ts';
import type { ClusterRecord, KeptPlace } from '../app/cluster/kept.ts';
import type { KeptWriter } from '../app/cluster/kept-logs.ts';
import type { Clock } from '../app/ports.ts';
import { oneAtATime } from './bounded.ts';
import { watchNamespace } from './cluster-namespace.ts';
import type { NamespaceWatch } from './cluster-namespace.ts';
import { textOf } from './looks.ts';

/** The parts of the mirror. */
export interface ClusterMirrorOptions {
  readonly record: ClusterRecord;
  /** The mark of this record, which is a label of every job that is submitted from it. */
  readonly installation: () => Promise<string>;
  /** The cluster of that place; rejects with JobmanError where the kubeconfig does not lead there any more. */
  readonly open: (place: KeptPlace) => Promise<Cluster>;
  /** The copy of that container's log; throws StoreError. */
  readonly copyOf: (job: ClusterJob, pod: string, container: string) => KeptWriter;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** A background task of the controller, next to the jobs that it supervises. */
export interface ClusterMirror {
  /** Somebody may have submitted somewhere: begins to look after places that are new. Cheap, and safe to repeat. */
  look(): void;
  /** True while something of ours may still happen in a cluster, or is being copied: then the controller should stay. */
  readonly isBusy: boolean;
  /** Leaves everything as it is; resolves when nothing is written any more. */
  stop(): Promise<void>;
}

/** Nothing is asked before `look`. */
export function createClusterMirror(options: ClusterMirrorOptions): ClusterMirror {
  const { record, say } = options;
  const watched = new Map<string, NamespaceWatch>();
  let isStopped = false;

  const looking = oneAtATime(async () => {
    if (isStopped) return;
    try {
      for (const place of await record.places()) {
        const key = `${place.server} ${place.namespace}`;
        const known = watched.get(key);
        if (isStopped) return;
        if (known !== undefined) known.wanted(place);
        else {
          const one = watchNamespace(place, options);
          watched.set(key, one);
          void one.left.then(() => {
            watched.delete(key);
            // Somebody may have submitted there in the moment of leaving.
            looking.again();
          });
        }
      }
    } catch (error) {
      say(`what is kept of clusters' jobs could not be read: ${textOf(error)}`);
    }
  });

  return {
    look: looking.again,
    get isBusy() {
      return looking.isGoingOn || [...watched.values()].some((one) => one.isBusy);
    },
    async stop() {
      isStopped = true;
      await Promise.all([...watched.values()].map((one) => one.stop()));
    },
  };
}
