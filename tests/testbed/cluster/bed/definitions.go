package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

var definitionResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// applyDefinitions applies CustomResourceDefinitions from files and folders and waits until they are served.
func (b *server) applyDefinitions(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	client, err := dynamic.NewForConfig(b.restConfig())
	if err != nil {
		return err
	}
	var applications []func() error
	for _, path := range paths {
		definitions, err := readDefinitions(path)
		if err != nil {
			return err
		}
		for _, definition := range definitions {
			applications = append(applications, func() error {
				if err := applyDefinition(client.Resource(definitionResource), definition); err != nil {
					return fmt.Errorf("%s: %w", definition.GetName(), err)
				}
				return nil
			})
		}
	}
	return together(applications...)
}

func readDefinitions(path string) ([]*unstructured.Unstructured, error) {
	files := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return nil, err
		}
	}
	var definitions []*unstructured.Unstructured
	for _, name := range files {
		found, err := readDefinitionFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		definitions = append(definitions, found...)
	}
	return definitions, nil
}

func readDefinitionFile(name string) ([]*unstructured.Unstructured, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var definitions []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(file, 1<<16)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		switch {
		case errors.Is(err, io.EOF):
			return definitions, nil
		case err != nil:
			return nil, err
		case len(object.Object) == 0:
			continue
		case object.GetKind() != "CustomResourceDefinition":
			return nil, fmt.Errorf("a bed applies CustomResourceDefinitions only, not %s", object.GetKind())
		}
		definitions = append(definitions, labelled(object))
	}
}

func labelled(definition *unstructured.Unstructured) *unstructured.Unstructured {
	if !isClusterAPIGroup(definition.GetName()) {
		return definition
	}
	labels := definition.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range contractLabels {
		labels[key] = value
	}
	definition.SetLabels(labels)
	return definition
}

func applyDefinition(client dynamic.ResourceInterface, definition *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	name := definition.GetName()
	if _, err := client.Apply(ctx, name, definition, metav1.ApplyOptions{FieldManager: "testbed", Force: true}); err != nil {
		return err
	}
	for {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if established(object) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func established(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Established" && condition["status"] == "True" {
			return true
		}
	}
	return false
}
