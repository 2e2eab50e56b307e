// Certificate trouble: what Node's names for a certificate that was not accepted mean, as the end of a sentence about it.

const notKnown = 'is of an authority that is not known here';

/** Names of OpenSSL's verification as Node tells them (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const meanings: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notKnown,
  UNABLE_TO_GET_ISSUER_CERT: notKnown,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notKnown,
  SELF_SIGNED_CERT_IN_CHAIN: notKnown,
  DEPTH_ZERO_SELF_SIGNED_CERT: notKnown,
  CERT_SIGNATURE_FAILURE: notKnown,
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet: is the clock of this machine right?',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another address',
};

/** `is of an authority that is not known here`; undefined for an error that is about no certificate. */
export function certificateTrouble(code: string | null | undefined): string | undefined {
  return code === null || code === undefined || !Object.hasOwn(meanings, code) ? undefined : meanings[code];
}
