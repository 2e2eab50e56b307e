// Kubernetes file: distinguishes objects of Kubernetes from manifests of jobman, without parsing either.

/** True of a file with objects of Kubernetes, even if it has mistakes: no manifest of jobman has these keys at its top. */
export function isKubernetesFile(text: string): boolean {
  return /^(?:apiVersion|kind)[ \t]*:/m.test(text) || /^\s*\{[^]*"apiVersion"\s*:/.test(text);
}
