/** Errors of the Cloud TPU service, with Google's messages and codes where they are known. */

/** gRPC codes, and the HTTP status that Google's front end gives each of them. */
const codes = {
  CANCELLED: [1, 499],
  INVALID_ARGUMENT: [3, 400],
  NOT_FOUND: [5, 404],
  ALREADY_EXISTS: [6, 409],
  PERMISSION_DENIED: [7, 403],
  RESOURCE_EXHAUSTED: [8, 429],
  FAILED_PRECONDITION: [9, 400],
  ABORTED: [10, 409],
  CONDITION_NOT_MET: [9, 412],
  UNIMPLEMENTED: [12, 501],
  INTERNAL: [13, 500],
  UNAVAILABLE: [14, 503],
  UNAUTHENTICATED: [16, 401],
} as const;

export type ErrorStatus = keyof typeof codes;

export interface RpcStatus {
  readonly code: number;
  readonly message: string;
  readonly details?: readonly object[];
}

export class CloudError extends Error {
  override readonly name = 'CloudError';
  readonly status: ErrorStatus;
  readonly details: readonly object[];

  constructor(status: ErrorStatus, message: string, details: readonly object[] = []) {
    super(message);
    this.status = status;
    this.details = details;
  }

  get httpStatus(): number {
    return codes[this.status][1];
  }

  body(): object {
    return {
      error: {
        code: this.httpStatus,
        message: this.message,
        status: this.status,
        ...(this.details.length > 0 ? { details: this.details } : {}),
      },
    };
  }

  rpc(): RpcStatus {
    return {
      code: codes[this.status][0],
      message: this.message,
      ...(this.details.length > 0 ? { details: this.details } : {}),
    };
  }
}

function errorInfo(reason: string, domain: string, metadata: Record<string, string>): object {
  return { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain, metadata };
}

/** An invalid argument in the front end's format: one violation with its field. */
export function invalidField(field: string, description: string): CloudError {
  return new CloudError('INVALID_ARGUMENT', description, [
    { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: [{ field, description }] },
  ]);
}

/** `eid` is the id at the end of the TPU service's own messages: ` [EID: 0x…]`, different each time. */
export const cloudErrors = {
  notFound: (name: string) => new CloudError('NOT_FOUND', `Resource '${name}' was not found`),

  alreadyExists: (name: string) => new CloudError('ALREADY_EXISTS', `Resource '${name}' already exists`),

  zoneNotSupported: (zone: string, eid: string) =>
    new CloudError(
      'INVALID_ARGUMENT',
      `Cloud TPU received a bad request. The requested zone "${zone}" is not supported. ${eid}`,
    ),

  typeNotInZone: (type: string, zone: string, eid: string) =>
    new CloudError(
      'INVALID_ARGUMENT',
      `Cloud TPU received a bad request. The requested accelerator configuration for accelerator type, "${type}", ` +
        `could not be found in the zonal accelerator configurations for "${zone}".; ` +
        `the accelerator ${type} was not found in zone ${zone} ${eid}`,
    ),

  badRequest: (what: string, eid: string) =>
    new CloudError('INVALID_ARGUMENT', `Cloud TPU received a bad request. ${what} ${eid}`),

  wrongState: (verb: string, state: string, eid: string) =>
    new CloudError(
      'INVALID_ARGUMENT',
      `Cloud TPU received a bad request. ${verb} is not supported while in state ${state} ${eid}`,
    ),

  notDeletable: (name: string, state: string, eid: string) =>
    new CloudError(
      'FAILED_PRECONDITION',
      `Queued resource '${name}' is in state ${state} and cannot be deleted now. ${eid}`,
    ),

  notResettable: (name: string, state: string, eid: string) =>
    new CloudError('FAILED_PRECONDITION', `Queued resource '${name}' is in state ${state} and cannot be reset. ${eid}`),

  noCapacity: (zone: string, eid: string) =>
    new CloudError(
      'RESOURCE_EXHAUSTED',
      `There is no more capacity in the zone "${zone}"; you can try in another zone where Cloud TPU Nodes are offered ` +
        `(see https://cloud.google.com/tpu/docs/regions) ${eid}`,
    ),

  nodeQuota: (name: string, limit: number, region: string) =>
    new CloudError(
      'RESOURCE_EXHAUSTED',
      `Quota limit '${name}' has been exceeded. Limit: ${String(limit)} in region ${region}.`,
    ),

  queuedQuota: (name: string, limit: number, region: string) =>
    new CloudError('RESOURCE_EXHAUSTED', `Quota '${name}' exhausted. Limit ${String(limit)} in region ${region}`),

  reservationExhausted: (eid: string) =>
    new CloudError(
      'FAILED_PRECONDITION',
      `Insufficient reserved capacity. Contact customer support to increase your reservation. ${eid}`,
    ),

  addressQuota: (limit: number) => new CloudError('RESOURCE_EXHAUSTED', `IN_USE_ADDRESSES limit (${String(limit)})`),

  requestQuota: (limit: number) =>
    new CloudError(
      'RESOURCE_EXHAUSTED',
      `Quota exceeded for quota metric 'Maximum number of CreateNode requests per minute' of service ` +
        `'tpu.googleapis.com'. Limit: ${String(limit)}.`,
    ),

  flexNotOffered: (type: string, zone: string) =>
    new CloudError(
      'INVALID_ARGUMENT',
      `FLEX_START provisioning model is not supported for accelerator type "${type}" in location "${zone}"`,
    ),

  noMaintenance: (name: string, eid: string) =>
    new CloudError('FAILED_PRECONDITION', `There is no upcoming maintenance of '${name}' to perform. ${eid}`),

  zoneForbidden: (project: string, zone: string) =>
    new CloudError('PERMISSION_DENIED', `Permission denied on 'locations/${zone}' (or it may not exist).`, [
      errorInfo('LOCATION_POLICY_VIOLATED', 'googleapis.com', {
        consumer: `projects/${project}`,
        location: zone,
        service: 'tpu.googleapis.com',
      }),
    ]),

  permissionDenied: (permission: string, resource: string) =>
    new CloudError(
      'PERMISSION_DENIED',
      `Permission '${permission}' denied on resource '//tpu.googleapis.com/${resource}' (or it may not exist).`,
      [errorInfo('IAM_PERMISSION_DENIED', 'tpu.googleapis.com', { permission, resource })],
    ),

  apiDisabled: (project: string, projectNumber: string) =>
    new CloudError(
      'PERMISSION_DENIED',
      `Cloud TPU API has not been used in project ${projectNumber} before or it is disabled. Enable it by visiting ` +
        `https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?project=${projectNumber} then retry.`,
      [
        errorInfo('SERVICE_DISABLED', 'googleapis.com', {
          consumer: `projects/${project}`,
          service: 'tpu.googleapis.com',
        }),
      ],
    ),

  unauthenticated: () =>
    new CloudError(
      'UNAUTHENTICATED',
      'Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid ' +
        'authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.',
    ),

  internal: () => new CloudError('INTERNAL', 'an internal error has occurred'),

  unavailable: () => new CloudError('UNAVAILABLE', 'The service is currently unavailable.'),
};
