// Removes secrets from text that leaves this machine: values that are known, and text that has the form of a secret.
// The second part errs on the side of removal: a bug report without a harmless value is still a bug report.

/** The text that replaces a secret. */
const redacted = '***';

/** A name whose value is a secret: of a variable, a key of a file or a flag. `max_tokens` and `tokenizer` are not such names. */
const secretCore =
  '(?:pass(?:word|wd|phrase)|pwd|secret|token(?!s|iz|_?(?:count|len|type|per))|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|signing[_-]?key|client[_-]?key|encryption[_-]?key|wandb[_-]?key|credential|cookie|webhook)';
/** Also in the middle of a name, as in `MY_API_KEY_2`. */
const secretNameText = `[\\w.-]{0,80}${secretCore}[\\w.-]{0,40}`;
/** A log may have a line of a megabyte: a name begins at a border, so that no pattern tries each character of it. */
const border = '(?<![\\w.-])';

const secretName = new RegExp(`^${secretNameText}$|^(?:.*_)?(?:KEY|PASS|AUTH)$`, 'i');

export function isSecretName(name: string): boolean {
  return secretName.test(name);
}

/** A value that says where a secret is, or that is not a secret: `env`, `env:NAME`, a number, `true`. */
const harmless = /^(?:env(?::\w+)?|null|none|true|false|-?\d{1,5}(?:\.\d+)?|\*+|\(set\)|)$/i;

const quotedValue = String.raw`\\?"(?:[^"\\\n]|\\(?!").)*\\?"|'[^'\n]*'`;
const bareValue = String.raw`[^\s"',;}\])]+`;

/** Each pattern has the groups `before` (kept) and `value` (removed). */
const assignments: readonly RegExp[] = [
  // password: |  followed by indented lines.
  new RegExp(
    `(?<before>${border}${secretNameText}["']?\\s*:\\s*[|>][+-]?\\d*[ \\t]*\\n)(?<value>(?:[ \\t]+[^\\n]*(?:\\n|$))+)`,
    'gi',
  ),
  // { "name": "DB_PASSWORD", "value": "..." }, also as YAML.
  new RegExp(
    `(?<before>\\b(?:name|key)\\\\?["']?\\s*:\\s*\\\\?["']?${secretNameText}\\\\?["']?\\s*,?\\s*\\\\?["']?value\\\\?["']?\\s*:\\s*)(?<value>${quotedValue}|${bareValue})`,
    'gi',
  ),
  // --token VALUE, --password=VALUE. Not `-p`, which has too many meanings.
  new RegExp(
    `(?<before>${border}--?${secretNameText}\\\\?["']?(?:\\s*,\\s*|\\s*=\\s*|\\s+))(?<value>${quotedValue}|${bareValue})`,
    'gi',
  ),
  // NAME=value, name: value, "name": "value", "name", "value".
  new RegExp(
    `(?<before>${border}${secretNameText}\\\\?["']?[ \\t]*(?:=>?|:)[ \\t]*)(?<value>${quotedValue}|${bareValue})`,
    'gi',
  ),
  // Variables with short names: upper case only, because `key: value` is ordinary.
  new RegExp(
    `(?<before>\\b[A-Z0-9_]{0,80}(?:KEY|PASS|AUTH)\\\\?["']?[ \\t]*[=:][ \\t]*)(?<value>${quotedValue}|${bareValue})`,
    'g',
  ),
  // A line of ~/.netrc.
  /(?<before>\b(?:login|account)\s+\S+\s+password\s+)(?<value>\S+)/g,
  // curl --user NAME:PASSWORD. The user and group of `docker run --user 1000:1000` are numbers.
  /(?<before>(?<![\w-])(?:-u|--(?:proxy-)?user)[\s="']{1,3}[^\s:"']{1,80}:)(?<value>[^\s"']+)/g,
  // wandb login KEY. A commit has 40 digits too, but does not occur in such a line.
  /(?<before>\bwandb\b[^\n]{0,80}?\b)(?<value>[0-9a-f]{40})\b/gi,
];

const headers =
  /((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-goog-api-key)(\\?["']?\s*[:=]\s*\\?["']?)([^\r\n"'\\]+)/gi;
const schemes = /\b(Bearer|Basic|Negotiate)(\s+)([\w.~+/-]{6,}=*)/gi;
/** RFC 3986: the part before the last @ of the authority. */
const urlPasswords = /\b([a-z][a-z0-9+.-]{0,20}:\/\/)([^\s/?#"'<>]{0,200}):([^\s/?#"'<>]{1,500})@/gi;
const urlTokens = /\b([a-z][a-z0-9+.-]{0,20}:\/\/)([^\s/?#"'<>:@]{20,2000})@/gi;
const urlParameters = new RegExp(
  `([?&](?:${secretNameText}|[\\w.-]{0,80}(?:key|sig|signature|auth|code))=)([^&\\s"'#]+)`,
  'gi',
);
const webhooks =
  /(https:\/\/(?:hooks\.slack\.com\/(?:services|workflows|triggers)|(?:\w{1,20}\.)?discord(?:app)?\.com\/api\/webhooks)\/)[^\s"'<>]+/gi;

/** Tokens that have a form of their own. */
const tokens: readonly RegExp[] = [
  /\bya29\.[\w-]{6,}/g, // Google access token
  /\b1\/\/0[\w-]{20,}/g, // Google refresh token
  /\bAIza[\w-]{30,}/g, // Google API key
  /\bGOCSPX-[\w-]{10,}/g, // Google OAuth client secret
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/g, // AWS
  /\bgh[pousr]_\w{20,}/g,
  /\bgithub_pat_\w{20,}/g,
  /\bglpat-[\w-]{16,}/g,
  /\bhf_[A-Za-z0-9]{12,}/g,
  /\b(?:sk|pk|rk)-[\w-]{12,}/g,
  /\bxox[abeprs]-[\w-]{8,}/g,
  /\bnpm_\w{30,}/g,
  /\bjobman_[0-9A-Za-z]{38}\b/g,
  /\bdckr_pat_[\w-]{16,}/g,
  /\bwandb_v\d_[\w-]{16,}/g,
  /\beyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*/g, // JSON Web Token
];

/** `\n` may be escaped. */
const pemBlock = /-----BEGIN [A-Z0-9 ]+-----(?:(?!-----(?:BEGIN|END))[\s\S]){0,20000}-----END [A-Z0-9 ]+-----/g;
/** A whole block, one without its end, and one without its beginning. */
const pemBlocks: readonly RegExp[] = [
  pemBlock,
  /-----BEGIN [A-Z0-9 ]+-----(?:(?:\s|\\n)+[A-Za-z0-9+/=]{16,})*(?:(?:\s|\\n)+[A-Za-z0-9+/=]+)?/g,
  /(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/=]{6,}(?:\s|\\n)+){1,400}-----END [A-Z0-9 ]+-----/g,
];

/** Removes what has the form of a secret. */
export function redactPatterns(text: string): string {
  let clean = text;
  for (const pattern of pemBlocks) clean = clean.replace(pattern, redacted);
  clean = clean.replace(headers, (_, name: string, between: string) => `${name}${between}${redacted}`);
  for (const pattern of assignments) {
    clean = clean.replace(pattern, (...found: readonly unknown[]) => {
      const { before, value } = found.at(-1) as { readonly before: string; readonly value: string };
      const inside = unquote(value);
      if (harmless.test(inside.trim())) return before + value;
      return before + value.replace(inside, () => redacted);
    });
  }
  clean = clean
    .replace(schemes, (_, scheme: string, space: string) => `${scheme}${space}${redacted}`)
    .replace(urlPasswords, (_, scheme: string, user: string) => `${scheme}${user}:${redacted}@`)
    .replace(urlTokens, (_, scheme: string) => `${scheme}${redacted}@`)
    .replace(urlParameters, (_, before: string) => before + redacted)
    .replace(webhooks, (_, before: string) => before + redacted);
  for (const pattern of tokens) clean = clean.replace(pattern, redacted);
  return clean;
}

function unquote(value: string): string {
  return /^\\?(["'])([\s\S]*?)\\?\1$/.exec(value)?.[2] ?? value;
}

/** Shorter values occur in ordinary text; patterns find them next to their names. */
const minLength = 6;

/**
 * Removes these values, also encoded for a URL, for JSON or in Base64, and then what has the form of a secret. Each long
 * line of a value of several lines counts for itself, because a log may contain only a part. Colours are removed too:
 * one between a name and its value would hide the value from the patterns.
 */
export function createRedactor(values: Iterable<string>): (text: string) => string {
  const known = new Set<string>();
  const unprintable: RegExp[] = [];
  for (const value of values) {
    const trimmed = value.trim();
    const lines = trimmed.includes('\n') ? trimmed.split(/\s*\n\s*/).filter((line) => line.length >= 16) : [];
    for (const one of [trimmed, ...lines]) {
      if (one.length < minLength || harmless.test(one)) continue;
      const base64 = Buffer.from(one).toString('base64');
      const forms = [one, encodeURIComponent(one), JSON.stringify(one).slice(1, -1), base64, base64.replace(/=+$/, '')];
      for (const form of forms) known.add(form);
      unprintable.push(...unprintablePattern(one));
    }
  }
  // The longest first: a value may be a part of another one.
  const all = [...known].toSorted((one, other) => other.length - one.length);
  const withoutKnown = (text: string): string =>
    unprintable.reduce(
      (clean, pattern) => clean.replace(pattern, redacted),
      all.reduce((clean, value) => clean.replaceAll(value, () => redacted), text),
    );
  return (text) => {
    const clean = withoutKnown(text);
    const plain = clean.replace(terminalSequences, '');
    return redactPatterns(plain === clean ? clean : withoutKnown(plain));
  };
}

/** Colours, erasures and the like (ECMA-48, CSI), also as text such as JSON shows them. */
const terminalSequence = String.raw`(?:\u001b|\\{1,2}(?:u001b|x1b|e|033))\[[0-?]*[ -/]*[@-~]`;
const terminalSequences = new RegExp(terminalSequence, 'gi');

/** The letter of an escape sequence by its character code: `\n`. */
const escapeLetters: Readonly<Record<number, string>> = {
  7: 'a',
  8: 'b',
  9: 't',
  10: 'n',
  11: 'v',
  12: 'f',
  13: 'r',
  27: 'e',
};

/**
 * A value with characters that are not printable, as programs, JSON, YAML and the logs of jobman show them: as they are,
 * as an escape sequence, or not at all. None for a value without any.
 */
function unprintablePattern(value: string): readonly RegExp[] {
  const parts = value.match(new RegExp(`${terminalSequence}|[^]`, 'giu')) ?? [];
  const isPrintable = (part: string) => /^[^\p{C}\p{Z}]$|^ $/u.test(part);
  // Less than this occurs in ordinary text.
  if (parts.every(isPrintable) || parts.filter(isPrintable).length < minLength) return [];
  const source = parts.map((part) => {
    if (isPrintable(part)) return RegExp.escape(part);
    if (part.length > 2) return `(?:${RegExp.escape(part)})?`;
    const code = part.codePointAt(0) ?? 0;
    const letter = escapeLetters[code];
    const names = [`[xu]0*${code.toString(16)}`, `0*${code.toString(8)}`, ...(letter === undefined ? [] : [letter])];
    return String.raw`(?:${RegExp.escape(part)}|\s|\\{1,2}(?:${names.join('|')})){0,8}`;
  });
  return [new RegExp(source.join(''), 'giu')];
}

/** The secrets in a text: values next to secret names, passwords in URLs, PEM blocks, logins of Docker. */
export function secretsIn(text: string): readonly string[] {
  const found: string[] = [...text.matchAll(pemBlock)].map(([block]) => block.replaceAll(String.raw`\n`, '\n'));
  for (const pattern of assignments)
    for (const { groups } of text.matchAll(pattern)) found.push(unquote(groups?.['value'] ?? ''));
  found.push(...secretsInJson(text));
  for (const [, , , value = ''] of text.matchAll(headers)) found.push(value.replace(/^\w+\s+/, ''));
  for (const [, , , value = ''] of text.matchAll(urlPasswords)) found.push(value, decodeSafely(value));
  for (const [, , value = ''] of text.matchAll(urlTokens)) found.push(value);
  for (const [, value = ''] of text.matchAll(/"auth"\s*:\s*"([^"]+)"/g)) {
    // A login of Docker: user:password in Base64.
    found.push(
      value,
      Buffer.from(value, 'base64')
        .toString('utf8')
        .replace(/^[^:]*:/, ''),
    );
  }
  return found.filter((value) => value.length >= minLength && !harmless.test(value.trim()));
}

/** The values of secret names, without the escape sequences of JSON. Empty for text that is not JSON. */
function secretsInJson(text: string): readonly string[] {
  const found: string[] = [];
  try {
    JSON.parse(text, (name, value: unknown) => {
      if (typeof value === 'string' && isSecretName(name)) found.push(value);
      return value;
    });
  } catch {
    return [];
  }
  return found;
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
