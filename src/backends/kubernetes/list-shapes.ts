// List shapes: which fields of a list of Jobs or pods are read, and of a refusal to give it, by their numbers in Kubernetes' own
// definitions (generated.proto beside the types, in k8s.io/api/batch/v1, k8s.io/api/core/v1 and
// k8s.io/apimachinery/pkg/apis/meta/v1). What is read of a Job is RawJob of objects.ts.

import { labelsOfJobs, labelsOfPods } from './objects.ts';
import { readMessage, type Shape } from './protobuf.ts';

/** Stands before every object in this form: `k8s` and a zero. */
const magic = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

/** `Unknown` of apimachinery: the object's own bytes behind its kind. */
const envelope: Shape = { 2: { name: 'raw', kind: 'bytes' } };

const listMeta: Shape = {
  2: { name: 'resourceVersion', kind: 'text' },
  3: { name: 'continue', kind: 'text' },
};

/** `Status` of apimachinery: a refusal. */
const status: Shape = {
  1: { name: 'metadata', kind: listMeta },
  3: { name: 'message', kind: 'text' },
  4: { name: 'reason', kind: 'text' },
  5: {
    name: 'details',
    kind: {
      1: { name: 'name', kind: 'text' },
      3: { name: 'kind', kind: 'text' },
      4: {
        name: 'causes',
        is: 'list',
        kind: {
          1: { name: 'reason', kind: 'text' },
          2: { name: 'message', kind: 'text' },
          3: { name: 'field', kind: 'text' },
        },
      },
    },
  },
};

/** Of an object of which only these labels are looked at. */
const objectMeta = (labels: readonly string[]): Shape => ({
  1: { name: 'name', kind: 'text' },
  3: { name: 'namespace', kind: 'word' },
  5: { name: 'uid', kind: 'text' },
  8: { name: 'creationTimestamp', kind: 'time' },
  9: { name: 'deletionTimestamp', kind: 'time' },
  11: { name: 'labels', kind: 'text', is: 'map', only: labels },
  12: { name: 'annotations', kind: 'text', is: 'map' },
});

const resources: Shape = {
  1: { name: 'limits', kind: 'amount', is: 'map' },
  2: { name: 'requests', kind: 'amount', is: 'map' },
};

const container: Shape = {
  1: { name: 'name', kind: 'word' },
  2: { name: 'image', kind: 'word' },
  8: { name: 'resources', kind: resources, isShared: true },
  24: { name: 'restartPolicy', kind: 'word' },
};

const podSpec: Shape = {
  2: { name: 'containers', kind: container, is: 'list' },
  20: { name: 'initContainers', kind: container, is: 'list' },
  24: { name: 'priorityClassName', kind: 'word' },
};

const condition: Shape = {
  1: { name: 'type', kind: 'word' },
  2: { name: 'status', kind: 'word' },
  4: { name: 'lastTransitionTime', kind: 'time' },
  5: { name: 'reason', kind: 'word' },
  6: { name: 'message', kind: 'word' },
};

/** A Job. */
export const jobShape: Shape = {
  1: { name: 'metadata', kind: objectMeta(labelsOfJobs) },
  2: {
    name: 'spec',
    kind: {
      1: { name: 'parallelism', kind: 'whole' },
      2: { name: 'completions', kind: 'whole' },
      3: { name: 'activeDeadlineSeconds', kind: 'whole' },
      6: { name: 'template', kind: { 2: { name: 'spec', kind: podSpec } } },
      10: { name: 'suspend', kind: 'truth' },
    },
  },
  3: {
    name: 'status',
    kind: {
      1: { name: 'conditions', kind: condition, is: 'list' },
      2: { name: 'startTime', kind: 'time' },
      3: { name: 'completionTime', kind: 'time' },
      4: { name: 'active', kind: 'whole' },
      5: { name: 'succeeded', kind: 'whole' },
      6: { name: 'failed', kind: 'whole' },
      9: { name: 'ready', kind: 'whole' },
      11: { name: 'terminating', kind: 'whole' },
    },
  },
};

const containerState: Shape = {
  1: { name: 'waiting', kind: { 1: { name: 'reason', kind: 'word' }, 2: { name: 'message', kind: 'word' } } },
  2: { name: 'running', kind: { 1: { name: 'startedAt', kind: 'time' } } },
  3: {
    name: 'terminated',
    kind: {
      1: { name: 'exitCode', kind: 'whole' },
      2: { name: 'signal', kind: 'whole' },
      3: { name: 'reason', kind: 'word' },
      4: { name: 'message', kind: 'word' },
      5: { name: 'startedAt', kind: 'time' },
      6: { name: 'finishedAt', kind: 'time' },
    },
  },
};

const containerStatus: Shape = {
  1: { name: 'name', kind: 'word' },
  2: { name: 'state', kind: containerState },
  3: { name: 'lastState', kind: containerState },
  5: { name: 'restartCount', kind: 'whole' },
};

/** A pod. What is read of one is RawPod of objects.ts. */
export const podShape: Shape = {
  1: { name: 'metadata', kind: objectMeta(labelsOfPods) },
  2: { name: 'spec', kind: { ...podSpec, 10: { name: 'nodeName', kind: 'word' } } },
  3: {
    name: 'status',
    kind: {
      1: { name: 'phase', kind: 'word' },
      2: { name: 'conditions', kind: condition, is: 'list' },
      3: { name: 'message', kind: 'word' },
      4: { name: 'reason', kind: 'word' },
      7: { name: 'startTime', kind: 'time' },
      8: { name: 'containerStatuses', kind: containerStatus, is: 'list' },
      10: { name: 'initContainerStatuses', kind: containerStatus, is: 'list' },
    },
  },
};

/** An object of which only the metadata are requested. */
export const metadataShape: Shape = { 1: { name: 'metadata', kind: objectMeta(labelsOfPods) } };

/** The beginning of a list: what its metadata say, and the bytes that hold its items. Throws RangeError for what is none. */
export function readListHead(bytes: Buffer): {
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
  readonly rest: Buffer;
} {
  if (!isBinary(bytes)) throw new RangeError('it is no object of Kubernetes');
  const { raw } = readMessage(bytes.subarray(magic.length), envelope) as { readonly raw?: Buffer };
  const rest = raw ?? Buffer.alloc(0);
  const { metadata = {} } = readMessage(rest, { 1: { name: 'metadata', kind: listMeta } }) as {
    readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
  };
  return { metadata, rest };
}

/** Whether these bytes are an object in this form. */
export function isBinary(bytes: Buffer): boolean {
  return bytes.subarray(0, magic.length).equals(magic);
}

/** The Status of a reply, which comes in the form that was asked for, as all replies do. Throws RangeError for what is none. */
export function readBinaryStatus(bytes: Buffer): Record<string, unknown> {
  const { raw } = readMessage(bytes.subarray(magic.length), envelope) as { readonly raw?: Buffer };
  return readMessage(raw ?? Buffer.alloc(0), status);
}

/** The items of such a list. */
export function readListItems<T>(rest: Buffer, item: Shape): readonly T[] {
  const { items = [] } = readMessage(rest, { 2: { name: 'items', kind: item, is: 'list' } });
  return items as readonly T[];
}
