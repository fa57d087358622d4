/**
 * The JSON-lines format of an exported pool, with a checksum per container and an end mark. Values are base64 of what
 * the container has, so nothing is lost. Reads and writes no files.
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

/** What is needed to make the pool again. */
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

/** A row as it stands in the file: state or timer, its key, its value in base64. */
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

/** Of the rows of one container, line after line: each sum includes the one before. */
export class ExportChecksum {
  #sum = 0;
  #rows = 0;

  get rows(): number {
    return this.#rows;
  }

  get text(): string {
    return this.#sum.toString(16).padStart(8, '0');
  }

  /** A line without its end. */
  add(line: string): void {
    this.#sum = crc32c(encoder.encode(`${this.text}${line}`));
    this.#rows += 1;
  }

  end(container: number): ExportEnd {
    return { end: container, rows: this.#rows, sum: this.text };
  }
}

/** Follows a file from its first line to its last, and refuses it as soon as something is missing or damaged. */
export class ExportReader {
  #head: ExportHead | undefined;
  #next = 0;
  #sum: ExportChecksum | undefined;
  #isComplete = false;

  /** What the line says; STORE_CORRUPT when it cannot stand where it stands. */
  take(text: string): ExportLine {
    const line = parsed(text);
    if (this.#isComplete) throw damaged('something comes after its end');
    if (this.#head === undefined) {
      this.#head = headOf(line);
      return this.#head;
    }
    if ('s' in line || 't' in line) this.#row(text);
    else if ('container' in line) this.#begin(line.container);
    else if ('end' in line) this.#end(line);
    else if ('complete' in line) this.#complete(this.#head);
    else throw damaged('a line is of no known kind');
    return line;
  }

  /** The file is over. */
  finish(): void {
    if (!this.#isComplete) throw damaged('its end is missing');
  }

  #begin(container: number): void {
    if (this.#sum !== undefined || container !== this.#next) throw damaged(`container ${this.#next} is missing`);
    this.#sum = new ExportChecksum();
  }

  #row(text: string): void {
    if (this.#sum === undefined) throw damaged('a row belongs to no container');
    this.#sum.add(text);
  }

  #end({ end, rows, sum }: ExportEnd): void {
    const seen = this.#sum;
    if (seen === undefined || end !== this.#next || rows !== seen.rows || sum !== seen.text)
      throw damaged(`the rows of container ${this.#next} do not match their checksum`);
    this.#sum = undefined;
    this.#next += 1;
  }

  #complete({ containers }: ExportHead): void {
    if (this.#sum !== undefined || this.#next !== containers) throw damaged(`container ${this.#next} is missing`);
    this.#isComplete = true;
  }
}

function headOf(line: ExportLine): ExportHead {
  if (!('export' in line) || line.export !== exportKind) throw damaged('it is no exported pool');
  if (line.format !== exportFormat) throw new RemusterError('INCOMPATIBLE_VERSION', wrongFormat(line.format));
  return line;
}

function parsed(text: string): ExportLine {
  try {
    const line: unknown = JSON.parse(text);
    if (typeof line === 'object' && line !== null) return line as ExportLine;
  } catch {
    // Told below.
  }
  throw damaged('a line is no JSON');
}

function damaged(what: string): RemusterError {
  return new RemusterError('STORE_CORRUPT', `the file cannot be used: ${what}`);
}

function wrongFormat(format: unknown): string {
  const text = `the file has format ${String(format)}, and this version reads format ${exportFormat} only`;
  return `${text}; import it with the version that wrote it`;
}
