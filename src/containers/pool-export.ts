/**
 * The JSON-lines format of an exported pool, with a checksum per container and an end mark. Values are the stored bytes
 * in base64, so nothing is lost. Reads and writes no files.
 *
 *   {"export":"remuster pool","format":1,"pool":"visits","module":"counter","containers":2,...}
 *   {"container":0}
 *   {"s":"key of the state","v":"..."}
 *   {"t":"name of a timer","v":"..."}
 *   {"end":0,"rows":2,"sum":"1c2d3e4f"}
 *   ...
 *   {"complete":true,"containers":2}
 */
import { crc32c } from '../base/crc.ts';
import { RemusterError } from '../base/errors.ts';
import type { PoolDurability } from '../placement/state/container-records.ts';

/** What an import needs to create the pool. */
export type ExportHead = {
  readonly export: typeof exportKind;
  readonly format: number;
  readonly pool: string;
  readonly module: string;
  readonly moduleVersion: number;
  readonly containers: number;
  readonly copies: number;
  readonly durability: PoolDurability;
  readonly restart: boolean;
  readonly params: unknown;
  readonly exportedAt: string;
};

/** A row of the file: `s` is a key of the state, `t` the name of a timer, `v` the value in base64. */
export type ExportRow = { readonly s: string; readonly v: string } | { readonly t: string; readonly v: string };
export type ExportEnd = { readonly end: number; readonly rows: number; readonly sum: string };
export type ExportLine =
  | ExportHead
  | { readonly container: number }
  | ExportRow
  | ExportEnd
  | { readonly complete: true; readonly containers: number };

export const exportKind = 'remuster pool';
export const exportFormat = 1;

const encoder = new TextEncoder();

/** The checksum of the rows of one container; each line is added to the sum of the lines before. */
export class ExportChecksum {
  #sum = 0;
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  get text(): string {
    return this.#sum.toString(16).padStart(8, '0');
  }

  /** Adds a line, without its line break. */
  add(line: string): void {
    this.#sum = crc32c(encoder.encode(`${this.text}${line}`));
    this.#rows += 1;
  }

  end(container: number): ExportEnd {
    return { end: container, rows: this.#rows, sum: this.text };
  }
}

/** Checks a file line by line, and refuses it as soon as something is missing or damaged. */
export class ExportReader {
  #head: ExportHead | undefined;
  #next = 0;
  #sum: ExportChecksum | undefined;
  #isComplete = false;

  /** Parses the next line; throws STORE_CORRUPT if it is malformed or out of place. */
  take(text: string): ExportLine {
    const line = parseLine(text);
    if (this.#isComplete) throw damagedFile('it has lines after its end mark');
    if (this.#head === undefined) {
      this.#head = checkHead(line);
      return this.#head;
    }
    if ('s' in line || 't' in line) this.#addRow(text);
    else if ('container' in line) this.#startContainer(line.container);
    else if ('end' in line) this.#endContainer(line);
    else if ('complete' in line) this.#complete(this.#head);
    else throw damagedFile('a line has an unknown kind');
    return line;
  }

  /** Called after the last line. */
  finish(): void {
    if (!this.#isComplete) throw damagedFile('its end mark is missing');
  }

  #startContainer(container: number): void {
    if (this.#sum !== undefined || container !== this.#next) throw damagedFile(`container ${this.#next} is missing`);
    this.#sum = new ExportChecksum();
  }

  #addRow(text: string): void {
    if (this.#sum === undefined) throw damagedFile('a row belongs to no container');
    this.#sum.add(text);
  }

  #endContainer({ end, rows, sum }: ExportEnd): void {
    const checksum = this.#sum;
    if (checksum === undefined || end !== this.#next || rows !== checksum.rows || sum !== checksum.text)
      throw damagedFile(`the rows of container ${this.#next} do not match their checksum`);
    this.#sum = undefined;
    this.#next += 1;
  }

  #complete({ containers }: ExportHead): void {
    if (this.#sum !== undefined || this.#next !== containers) throw damagedFile(`container ${this.#next} is missing`);
    this.#isComplete = true;
  }
}

function checkHead(line: ExportLine): ExportHead {
  if (!('export' in line) || line.export !== exportKind) throw damagedFile('it is not an exported pool');
  if (line.format !== exportFormat) throw new RemusterError('INCOMPATIBLE_VERSION', wrongFormat(line.format));
  return line;
}

function parseLine(text: string): ExportLine {
  try {
    const line: unknown = JSON.parse(text);
    if (typeof line === 'object' && line !== null) return line as ExportLine;
  } catch {
    // The error below covers it.
  }
  throw damagedFile('a line is not a JSON object');
}

function damagedFile(what: string): RemusterError {
  return new RemusterError('STORE_CORRUPT', `the file cannot be used: ${what}`);
}

function wrongFormat(format: unknown): string {
  const text = `the file has format ${String(format)}, and this version reads format ${exportFormat} only`;
  return `${text}; import it with the version that wrote it`;
}
