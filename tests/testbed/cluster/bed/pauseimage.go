package bed

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
)

const pauseImage = "captf.test/pause:1"

// writePauseImage writes the image that holds a pod's namespaces as an archive: the one static program 'pause' that
// lies beside this binary.
func writePauseImage(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(filepath.Dir(self), "pause"))
	if err != nil {
		return err
	}
	layer, err := archive(entry{"pause", 0o755, program})
	if err != nil {
		return err
	}
	configuration, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": runtime.GOARCH,
		"config": map[string]any{"Entrypoint": []string{"/pause"}, "User": "65535:65535"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(configuration) + ".json", "RepoTags": []string{pauseImage}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	image, err := archive(
		entry{"layer.tar", 0o644, layer},
		entry{digest(configuration) + ".json", 0o644, configuration},
		entry{"manifest.json", 0o644, manifest},
	)
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

type entry struct {
	name    string
	mode    int64
	content []byte
}

func archive(entries ...entry) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(e.content); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return out.Bytes(), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
