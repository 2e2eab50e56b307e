/**
 * The messages of the Cloud TPU API as tables: field names, kinds and enum numbers of the discovery documents `tpu v2`
 * and `v2alpha1`, revision 20260127. Decoding and encoding both use these tables, so a field is added once.
 */

export type ApiVersion = 'v1' | 'v2' | 'v2alpha1';

interface EnumTable {
  /** The full proto name, for error messages. */
  readonly name: string;
  readonly numbers: Readonly<Record<string, number>>;
}

export type Kind =
  | 'string'
  | 'bool'
  | 'int32'
  | 'int64'
  | 'timestamp'
  | 'duration'
  | { readonly enum: EnumTable }
  | { readonly message: () => Message }
  | { readonly list: Kind }
  | { readonly map: 'string' }
  | 'any';

interface Field {
  readonly kind: Kind;
  /** Absent: in both versions. */
  readonly onlyIn?: ApiVersion;
}

export interface Message {
  /** The proto name without its package. */
  readonly name: string;
  readonly fields: Readonly<Record<string, Field>>;
}

/** A message as plain data: camelCase keys, enums as text, int64 as text. */
export type Data = { [field: string]: unknown };

/** '' when absent, as in proto. */
export function textOf(data: Data | undefined, field: string): string {
  const value = data?.[field];
  return typeof value === 'string' ? value : '';
}

export function messageOf(data: Data | undefined, field: string): Data {
  return (data?.[field] ?? {}) as Data;
}

const string: Field = { kind: 'string' };
const bool: Field = { kind: 'bool' };
const int64: Field = { kind: 'int64' };
const timestamp: Field = { kind: 'timestamp' };
const strings: Field = { kind: { list: 'string' } };
const map: Field = { kind: { map: 'string' } };
const one = (message: Message): Field => ({ kind: { message: () => message } });
const many = (message: Message): Field => ({ kind: { list: { message: () => message } } });
const choice = (table: EnumTable): Field => ({ kind: { enum: table } });
const alpha = (field: Field): Field => ({ ...field, onlyIn: 'v2alpha1' });
const stable = (field: Field): Field => ({ ...field, onlyIn: 'v2' });
const tpu = (name: string): string => `google.cloud.tpu.v2.${name}`;

const acceleratorKind: EnumTable = {
  name: tpu('AcceleratorConfig.Type'),
  numbers: { TYPE_UNSPECIFIED: 0, V2: 2, V3: 4, V4: 7, V5LITE_POD: 9, V5P: 10, V6E: 11 },
};

const nodeState: EnumTable = {
  name: tpu('Node.State'),
  numbers: {
    STATE_UNSPECIFIED: 0,
    CREATING: 1,
    READY: 2,
    RESTARTING: 3,
    REIMAGING: 4,
    DELETING: 5,
    REPAIRING: 6,
    STOPPED: 8,
    STOPPING: 9,
    STARTING: 10,
    PREEMPTED: 11,
    TERMINATED: 12,
    HIDING: 13,
    HIDDEN: 14,
    UNHIDING: 15,
    UNKNOWN: 16,
  },
};

const health: EnumTable = {
  name: tpu('Node.Health'),
  numbers: {
    HEALTH_UNSPECIFIED: 0,
    HEALTHY: 1,
    TIMEOUT: 3,
    UNHEALTHY_TENSORFLOW: 4,
    UNHEALTHY_MAINTENANCE: 5,
  },
};

const queuedState: EnumTable = {
  name: tpu('QueuedResourceState.State'),
  numbers: {
    STATE_UNSPECIFIED: 0,
    CREATING: 1,
    ACCEPTED: 2,
    PROVISIONING: 3,
    FAILED: 4,
    DELETING: 5,
    ACTIVE: 6,
    SUSPENDING: 7,
    SUSPENDED: 8,
    WAITING_FOR_RESOURCES: 9,
  },
};

const initiator: EnumTable = {
  name: tpu('QueuedResourceState.StateInitiator'),
  numbers: { STATE_INITIATOR_UNSPECIFIED: 0, USER: 1, SERVICE: 2 },
};

const diskMode: EnumTable = {
  name: tpu('AttachedDisk.DiskMode'),
  numbers: { DISK_MODE_UNSPECIFIED: 0, READ_WRITE: 1, READ_ONLY: 2 },
};

const apiVersion: EnumTable = {
  name: tpu('Node.ApiVersion'),
  numbers: { API_VERSION_UNSPECIFIED: 0, V1_ALPHA1: 1, V1: 2, V2_ALPHA1: 3, V2: 4 },
};

const provisioningModel: EnumTable = {
  name: 'google.cloud.tpu.v2alpha1.QueuedResource.ProvisioningModel',
  numbers: { PROVISIONING_MODEL_UNSPECIFIED: 0, STANDARD: 1, SPOT: 2, RESERVATION_BOUND: 3, FLEX_START: 4 },
};

const workloadType: EnumTable = {
  name: 'google.cloud.tpu.v2alpha1.MultiNodeParams.WorkloadType',
  numbers: { WORKLOAD_TYPE_UNSPECIFIED: 0, THROUGHPUT_OPTIMIZED: 1, AVAILABILITY_OPTIMIZED: 2 },
};

const maintenanceType: EnumTable = {
  name: tpu('UpcomingMaintenance.MaintenanceType'),
  numbers: { UNKNOWN_TYPE: 0, SCHEDULED: 1, UNSCHEDULED: 2 },
};

const maintenanceStatus: EnumTable = {
  name: tpu('UpcomingMaintenance.MaintenanceStatus'),
  numbers: { UNKNOWN: 0, PENDING: 1, ONGOING: 2 },
};

const symptomType: EnumTable = {
  name: tpu('Symptom.SymptomType'),
  numbers: {
    SYMPTOM_TYPE_UNSPECIFIED: 0,
    LOW_MEMORY: 1,
    OUT_OF_MEMORY: 2,
    EXECUTE_TIMED_OUT: 3,
    MESH_BUILD_FAIL: 4,
    HBM_OUT_OF_MEMORY: 5,
    PROJECT_ABUSE: 6,
  },
};

const acceleratorConfig: Message = {
  name: 'AcceleratorConfig',
  fields: { type: choice(acceleratorKind), topology: string },
};

const networkConfig: Message = {
  name: 'NetworkConfig',
  fields: {
    network: string,
    subnetwork: string,
    enableExternalIps: bool,
    canIpForward: bool,
    queueCount: { kind: 'int32' },
  },
};

const upcomingMaintenance: Message = {
  name: 'UpcomingMaintenance',
  fields: {
    type: choice(maintenanceType),
    canReschedule: bool,
    windowStartTime: string,
    windowEndTime: string,
    latestWindowStartTime: string,
    maintenanceStatus: choice(maintenanceStatus),
  },
};

export const node: Message = {
  name: 'Node',
  fields: {
    name: string,
    description: string,
    acceleratorType: string,
    state: choice(nodeState),
    healthDescription: string,
    runtimeVersion: string,
    networkConfig: one(networkConfig),
    networkConfigs: many(networkConfig),
    cidrBlock: string,
    serviceAccount: one({ name: 'ServiceAccount', fields: { email: string, scope: strings } }),
    createTime: timestamp,
    schedulingConfig: one({
      name: 'SchedulingConfig',
      fields: {
        preemptible: bool,
        reserved: bool,
        spot: bool,
        provisioningModel: alpha(choice(provisioningModel)),
        reservationName: alpha(string),
        terminationTimestamp: alpha(timestamp),
      },
    }),
    networkEndpoints: many({
      name: 'NetworkEndpoint',
      fields: {
        ipAddress: string,
        port: { kind: 'int32' },
        accessConfig: one({ name: 'AccessConfig', fields: { externalIp: string } }),
      },
    }),
    health: choice(health),
    labels: map,
    metadata: map,
    tags: strings,
    id: int64,
    dataDisks: many({
      name: 'AttachedDisk',
      fields: { sourceDisk: string, mode: choice(diskMode), workerIds: alpha(strings) },
    }),
    apiVersion: choice(apiVersion),
    symptoms: many({
      name: 'Symptom',
      fields: { createTime: timestamp, symptomType: choice(symptomType), details: string, workerId: string },
    }),
    shieldedInstanceConfig: one({ name: 'ShieldedInstanceConfig', fields: { enableSecureBoot: bool } }),
    acceleratorConfig: one(acceleratorConfig),
    queuedResource: string,
    multisliceNode: bool,
    upcomingMaintenance: one(upcomingMaintenance),
    bootDiskConfig: one({
      name: 'BootDiskConfig',
      fields: {
        customerEncryptionKey: one({ name: 'CustomerEncryptionKey', fields: { kmsKeyName: string } }),
        diskSizeGb: alpha(int64),
        enableConfidentialCompute: alpha(bool),
        provisionedIops: alpha(int64),
        provisionedThroughput: alpha(int64),
        sourceImage: alpha(string),
        storagePool: alpha(string),
      },
    }),
    autocheckpointEnabled: alpha(bool),
  },
};

const reservationState: EnumTable = {
  name: 'google.cloud.tpu.v2alpha1.Reservation.State',
  numbers: {
    STATE_UNSPECIFIED: 0,
    APPROVED: 1,
    PROVISIONING: 2,
    ACTIVE: 3,
    DEPROVISIONING: 4,
    EXPIRED: 5,
    FAILED: 6,
  },
};

const capacityUnits: EnumTable = {
  name: 'google.cloud.tpu.v2alpha1.Reservation.Standard.CapacityUnits',
  numbers: { CAPACITY_UNITS_UNSPECIFIED: 0, CORES: 1, CHIPS: 2 },
};

const interval: Message = { name: 'Interval', fields: { startTime: timestamp, endTime: timestamp } };

/** Only v2alpha1 has reservations. */
export const reservation: Message = {
  name: 'Reservation',
  fields: {
    name: string,
    state: choice(reservationState),
    standard: one({
      name: 'Standard',
      fields: {
        size: { kind: 'int32' },
        capacityUnits: choice(capacityUnits),
        resourceType: string,
        interval: one(interval),
        usage: one({ name: 'Usage', fields: { total: int64 } }),
      },
    }),
  },
};

const empty: Message = { name: 'Empty', fields: {} };

const status: Message = {
  name: 'Status',
  fields: { code: { kind: 'int32' }, message: string, details: { kind: { list: 'any' } } },
};

export const queuedResource: Message = {
  name: 'QueuedResource',
  fields: {
    name: string,
    createTime: timestamp,
    tpu: one({
      name: 'Tpu',
      fields: {
        nodeSpec: many({
          name: 'NodeSpec',
          fields: {
            parent: string,
            nodeId: string,
            multisliceParams: stable(
              one({ name: 'MultisliceParams', fields: { nodeCount: { kind: 'int32' }, nodeIdPrefix: string } }),
            ),
            multiNodeParams: alpha(
              one({
                name: 'MultiNodeParams',
                fields: { nodeCount: { kind: 'int32' }, nodeIdPrefix: string, workloadType: choice(workloadType) },
              }),
            ),
            node: one(node),
          },
        }),
      },
    }),
    spot: one(empty),
    guaranteed: one({
      name: 'Guaranteed',
      fields: { minDuration: { kind: 'duration' }, reserved: alpha(bool) },
    }),
    bestEffort: alpha(one(empty)),
    queueingPolicy: one({
      name: 'QueueingPolicy',
      fields: {
        validUntilDuration: { kind: 'duration' },
        validUntilTime: timestamp,
        validAfterDuration: { kind: 'duration' },
        validAfterTime: timestamp,
        validInterval: one(interval),
      },
    }),
    state: one({
      name: 'QueuedResourceState',
      fields: {
        state: choice(queuedState),
        stateInitiator: choice(initiator),
        creatingData: one(empty),
        acceptedData: one(empty),
        provisioningData: one(empty),
        failedData: one({ name: 'FailedData', fields: { error: one(status) } }),
        deletingData: one(empty),
        activeData: one(empty),
        suspendingData: one(empty),
        suspendedData: one(empty),
      },
    }),
    reservationName: string,
    provisioningModel: alpha(choice(provisioningModel)),
    runDuration: alpha(
      one({ name: 'RunDuration', fields: { maxRunDuration: { kind: 'duration' }, terminationTime: timestamp } }),
    ),
    trafficConfig: alpha({ kind: 'any' }),
  },
};

export const guestAttributesRequest: Message = {
  name: 'GetGuestAttributesRequest',
  fields: { queryPath: string, workerIds: strings },
};

export const workersRequest: Message = { name: 'SimulateMaintenanceEventRequest', fields: { workerIds: strings } };

export const maintenanceInfo: Message = {
  name: 'GetMaintenanceInfoResponse',
  fields: {
    nodeUpcomingMaintenances: many({
      name: 'NodeUpcomingMaintenanceInfo',
      fields: { nodeName: string, nodeUid: int64, upcomingMaintenance: one(upcomingMaintenance) },
    }),
  },
};

export const nodeNamesRequest: Message = {
  name: 'PerformMaintenanceQueuedResourceRequest',
  fields: { nodeNames: strings },
};

export const emptyRequest: Message = empty;
